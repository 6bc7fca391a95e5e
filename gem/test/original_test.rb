require_relative "test_helper"
require "memprof/middleware"
require "memprof/tracer"

# What memprof had beside its module, and the table of what became of its specs.
class OriginalTest < LancetTest
  TABLE = File.read(File.expand_path("ORIGINAL.md", __dir__))
  # A row: the case, our file, our test.
  ROWS = TABLE.scan(/^\| (.+?) \| `(\w+\.rb)` `(\w+)` \|/)

  def teardown
    Memprof.trace_filename = nil
    Memprof.stop
  end

  def test_each_case_has_a_test
    assert_operator ROWS.size, :>=, 30
    missing = ROWS.reject { |_, file, test| File.read(File.expand_path(file, __dir__)).include?("def #{test}\n") }
    assert_empty missing
  end

  def test_waiting_is_told_by_the_clock
    trace = Lancet.trace { IO.select(nil, nil, nil, 0.15) }
    assert_operator trace.seconds, :>=, 0.15
    assert_operator trace.cpu, :<, 0.1
  end

  # Without the library nothing is hooked of the group, and nothing is counted.
  def test_memcached_is_a_group
    trace = Lancet.trace(objects: false, calls: %i[memcached]) { 1 }
    assert_equal({}, trace.calls)
  end

  def test_the_program_says_how_it_is_used
    [[%w[heap --help], 0, /Usage: lancet heap/], [%w[heap --save /tmp/x -p], 2, /-p/], [%w[heap --save /tmp/x -p 99999999], 1, /99999999/]].each do |words, code, said|
      out, err, status = Open3.capture3(Lancet::Program.path, *words)
      assert_equal code, status.exitstatus, err
      assert_match said, out + err
    end
  end

  def test_the_middleware
    # No literal is frozen in this file: each is one String that lives on, whenever a collection runs.
    app = ->(_) { [200, {}, [@kept = ["abc", "abd"]]] }
    _, err = capture_io { assert_equal 200, Memprof::Middleware.new(app).call({}).first }
    assert_match(/^-{80}\n.*^      2 #{Regexp.escape(__FILE__)}:#{__LINE__ - 2}:String$/m, err)
    wasteful = ->(_) { 50.times { Object.new } && [200, {}, []] }
    _, err = capture_io { Memprof::Middleware.new(wasteful, force_gc: true).call({}) }
    # What the last call has left on the stack may live.
    assert_operator err[/^ +(\d+) .*:Object$/, 1].to_i, :<=, 2, err
    _, err = capture_io { without_collections { Memprof::Middleware.new(wasteful).call({}) } }
    assert_equal "50", err[/^ +(\d+) .*:Object$/, 1]
  end

  def test_the_tracer
    text = written do |file|
      Memprof.trace_filename = file
      tracer = Memprof::Tracer.new(->(_) { Object.new && [200, {}, []] })
      2.times { assert_equal [200, {}, []], tracer.call("REQUEST_METHOD" => "GET", "PATH_INFO" => "/cart") }
    end
    told = text.lines.map { |line| JSON.parse(line) }
    assert_equal [["/cart", 1]] * 2, (told.map { |one| [one["request"]["path"], one["tracers"]["objects"]["types"]["Object"]] })
    Memprof.trace_filename = nil
    assert_equal "/tmp/memprof_tracer-#{Process.pid}.json", Memprof::Tracer.file
  end

  # Somebody else may have made something of that name in /tmp. Requests are served, and nothing is written there.
  def test_the_tracer_s_file_is_its_own
    file = "/tmp/memprof_tracer-#{Process.pid}.json"
    tracer = Memprof::Tracer.new(->(_) { [200, {}, []] })
    written do |other|
      File.symlink(other, file)
      _, err = capture_io { 2.times { assert_equal [200, {}, []], tracer.call("REQUEST_METHOD" => "GET", "PATH_INFO" => "/") } }
      assert_equal 1, err.scan("lancet: not traced: Too many levels of symbolic links").size, err
      assert_equal "", File.read(other)
    end
    File.delete(file)
    tracer.call("REQUEST_METHOD" => "GET", "PATH_INFO" => "/")
    assert_equal [0o600, 1], [File.stat(file).mode & 0o777, File.readlines(file).size]
    read, write = IO.pipe
    child = fork do
      write.puts(Memprof::Tracer.file)
      exit!
    end
    Process.wait(child)
    assert_equal "/tmp/memprof_tracer-#{child}.json\n", read.gets
  ensure
    [read, write].compact.each(&:close)
    FileUtils.rm_f(file)
  end

  def test_the_filter
    env = { "REQUEST_METHOD" => "GET", "PATH_INFO" => "/", "action_dispatch.request.path_parameters" => { controller: "home", action: "index", id: "secret" } }
    controller = Struct.new(:request).new(Struct.new(:env).new(env))
    text = written do |file|
      Memprof.trace_filename = file
      assert_equal 7, Memprof::Filter.around(controller) { 7 }
      assert_equal 8, Memprof::Filter.filter(controller) { 8 }
    end
    request = { "method" => "GET", "path" => "/", "controller" => "home", "action" => "index" }
    assert_equal [request] * 2, (text.lines.map { |line| JSON.parse(line)["request"] })
  end

  def test_the_signal
    out = output_of(<<~'RUBY')
      require "memprof/signal"
      $kept = Array.new(3) { "abc".dup }
      Process.kill(:URG, Process.pid)
      sleep 0.01 until (found = Dir["/tmp/memprof-#{Process.pid}-*.heap"].first)
      print `#{Lancet::Program.path} heap #{found} --json`.lines.size > 3, " ", Memprof.rows.find { |row| row.type == "String" && row.line == 3 }&.live
      File.delete(found)
    RUBY
    assert_match(/\Atrue [36]\z/, out)
  end
end
