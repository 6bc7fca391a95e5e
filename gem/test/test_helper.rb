# The tests run on the installed gem or, by `rake test`, on this folder with the program of LANCET_BIN. No literal is frozen
# here: some are the objects that are counted.

require "minitest/autorun"
require "open3"
require "rbconfig"
require "tempfile"
require "timeout"
require "lancet"

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

  # What a block writes into a file.
  def written
    Tempfile.create("lancet") do |file|
      path = file.path
      yield path
      return File.read(path)
    end
  end

  def companion_pid
    Lancet::Companion.current.pid
  end
end
