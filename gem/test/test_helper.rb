# The tests run on the installed gem or, by `rake test`, on this folder with the program of LANCET_BIN. No literal is frozen
# here: some are the objects that are counted.

require "minitest/autorun"
require "objspace"
require "open3"
require "rbconfig"
require "fileutils"
require "tempfile"
require "timeout"
require "tmpdir"
require "lancet"

# What signatures were taken is remembered for all processes of a user's, and each run of the tests takes some that are always the same.
ENV["TMPDIR"] = Dir.mktmpdir("lancet-tests")
owner = Process.pid
Minitest.after_run { FileUtils.rm_rf(ENV.fetch("TMPDIR")) if Process.pid == owner }

class LancetTest < Minitest::Test
  # Nothing here takes longer unless something hangs.
  LIMIT = 60

  private

  # How a script of its own ends: its standard output, its standard error, its exit code.
  def ruby(*arguments, script: nil, options: [], env: {})
    arguments = ["-e", script, *arguments] if script
    words = [RbConfig.ruby, *options, *$LOAD_PATH.flat_map { |folder| ["-I", folder] }, *arguments]
    Timeout.timeout(LIMIT) do
      out, err, status = Open3.capture3(env, *words)
      [out, err, status.exitstatus || (128 + status.termsig)]
    end
  end

  # The standard output of one that ends with `code`.
  def output_of(script, code: 0, **how)
    out, err, ended = ruby(script: "require 'lancet'\n#{script}", **how)
    assert_equal code, ended, err
    out
  end

  # The same beside a companion of ours: it greets, and then does what its script says.
  def output_beside(companion, script, **how)
    Tempfile.create("companion") do |file|
      file.write(<<~RUBY)
        #!/usr/bin/env ruby
        $stdout.sync = true
        exit unless fork.nil?
        puts %({"lancet":"0","protocol":4,"pid":\#{Process.pid}})
        #{companion}
      RUBY
      file.close
      File.chmod(0o755, file.path)
      return output_of(script, env: { "LANCET_BIN" => file.path }, **how)
    end
  end

  # Runs the block while no collection may take what it leaves.
  def without_collections
    GC.disable
    yield
  ensure
    GC.enable
  end

  # What a block writes into a file.
  def written
    Tempfile.create("lancet") do |file|
      path = file.path
      yield path
      return File.read(path)
    end
  end

  # How many objects the block makes at each line of a file, by type, as Ruby itself tells it (objspace). Nothing else may make objects there.
  def allocated_in(file)
    GC.start
    GC.disable
    ObjectSpace.trace_object_allocations_start
    yield
    ObjectSpace.trace_object_allocations_stop
    found = Hash.new(0)
    ObjectSpace.each_object(BasicObject) do |object|
      next unless ObjectSpace.allocation_sourcefile(object) == file

      type = Kernel.instance_method(:class).bind(object).call.to_s
      found[[ObjectSpace.allocation_sourceline(object), anonymous(type)]] += 1
    end
    found
  ensure
    ObjectSpace.trace_object_allocations_stop
    ObjectSpace.trace_object_allocations_clear
    GC.enable
  end

  # The same of rows of ours.
  def by_line_and_type(rows, file)
    rows.each_with_object(Hash.new(0)) { |row, found| found[[row.line, anonymous(row.type)]] += row.born if row.path == file }
  end

  # A class without a name is another one in each run.
  def anonymous(type)
    type.sub(/:0x\h+/, "")
  end

  # The data of a page.
  def data_of(page)
    JSON.parse(page[%r{<script type="application/json" id="data">(.*?)</script>}m, 1])
  end

  def companion_pid
    Lancet::Companion.current.pid
  end
end
