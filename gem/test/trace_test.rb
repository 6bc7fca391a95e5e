require_relative "test_helper"
require "lancet/tracer"

# The account of what one thread does in a block.
class TraceTest < LancetTest
  def teardown
    Memprof.trace_filename = nil
  end

  # Rows of this file: line and type, and how many.
  def mine(trace)
    trace.objects.select { |row| row.path == __FILE__ }.to_h { |row| [[row.line, row.type], row.born] }
  end

  def work
    10.times { |number| [number.to_s, { number => "x" + "y" }] }
    Struct.new(:a).new(1)
    [3, 1, 2].sort_by { |number| -number }
  end

  def test_objects_by_line_and_type
    trace = Lancet.trace do
      7.times { "abc".dup }
      @kept = Array.new(3) { Object.new }
      :answer
    end
    line = __LINE__ - 4
    assert_equal :answer, trace.result
    assert_equal({ [line, "String"] => 14, [line + 1, "Object"] => 3, [line + 1, "Array"] => 1 }, mine(trace))
    assert_equal 18, trace.objects.sum(&:born)
    assert_empty trace.lost
  end

  # Until the trace is asked nothing is read of it by name, and then it is still what it was.
  def test_it_may_be_asked_later
    first = Lancet.trace { 3.times { Object.new } }
    line = __LINE__ - 1
    Lancet.trace { 5.times { "abc".dup } }
    assert_equal({ [line, "Object"] => 3 }, mine(first))
  end

  def test_each_line_as_ruby_counts_it
    3.times { work }
    theirs = allocated_in(__FILE__) { work }
    assert_equal theirs, by_line_and_type(Lancet.trace { work }.objects, __FILE__)
  end

  # Each of five threads makes its own, in turns.
  def test_threads_apart
    found = Array.new(5) do |number|
      Thread.new do
        Array.new(20) do
          trace = Lancet.trace do
            (number + 1).times do
              Object.new
              Thread.pass
              sleep 0.0005
            end
          end
          trace.objects.map { |row| [row.type, row.born] }
        end.uniq
      end
    end
    assert_equal Array.new(5) { |number| [[["Object", number + 1]]] }, found.map(&:value)
  end

  def test_what_other_threads_make_is_not_of_it
    stop = false
    other = Thread.new { Object.new until stop }
    trace = Lancet.trace { 10.times { "abc".dup && Thread.pass } }
    assert_equal({ [__LINE__ - 1, "String"] => 20 }, mine(trace))
    inner = Lancet.trace { Thread.new { Array.new(7) { Object.new } }.join }
    assert_equal 0, (inner.objects.select { |row| row.type == "Object" && row.line == __LINE__ - 1 }.sum(&:born))
  ensure
    stop = true
    other.join
  end

  # More threads than there are accounts, one after the other.
  def test_threads_that_come_and_go
    found = Array.new(200) { Thread.new { Lancet.trace { Object.new }.objects.sum(&:born) }.value }
    assert_equal [1], found.uniq
  end

  def test_too_many_threads_at_once
    started = Queue.new
    ended = Queue.new
    threads = Array.new(65) do
      Thread.new do
        Lancet.trace do
          started << nil
          ended.pop
        end
        nil
      rescue Lancet::Error => e
        started << nil
        ended.pop
        e.message
      end
    end
    65.times { started.pop }
    65.times { ended << nil }
    refused = threads.map(&:value).compact
    assert_equal 1, refused.size
    assert_match(/64 of its threads/, refused.first)
  end

  # A hundred threads that live all the time take accounts from one another.
  def test_many_threads_in_turns
    workers = Array.new(100) do
      asked = Queue.new
      answers = Queue.new
      thread = Thread.new do
        while (number = asked.pop)
          answers << Lancet.trace { number.times { Object.new } }.objects.sum(&:born)
        end
      end
      [thread, asked, answers]
    end
    2.times do
      told = workers.each_with_index.map do |(_, asked, answers), number|
        asked << number
        answers.pop
      end
      assert_equal [*0..99], told
    end
  ensure
    workers.each { |_, asked,| asked << nil }
    workers.each { |thread,| thread.join }
  end

  def test_one_in_another
    inner = nil
    outer = Lancet.trace do
      "abc".dup
      inner = Lancet.trace { 3.times { "abc".dup } }
      inner.objects
      "abc".dup
    end
    line = __LINE__ - 5
    assert_equal({ [line + 1, "String"] => 6 }, mine(inner))
    assert_equal({ [line, "String"] => 2, [line + 1, "String"] => 6, [line + 3, "String"] => 2 }, mine(outer))
  end

  def test_within_a_block_of_memprof_and_around_one
    trace = nil
    text = written { |file| Memprof.track(file) { trace = Lancet.trace { @kept = "abc" } } }
    line = __LINE__ - 1
    assert_match(/^      1 #{Regexp.escape(__FILE__)}:#{line}:String$/, text)
    assert_equal 1, mine(trace)[[line, "String"]]
    around = Lancet.trace { Memprof.track(File::NULL) { @kept = "abc" } }
    assert_equal 1, mine(around)[[__LINE__ - 1, "String"]]
  end

  def test_exceptions_and_throw
    ended = nil
    assert_raises(ZeroDivisionError) { Lancet::Trace.of(ended: ->(trace) { ended = trace }) { Object.new && 1 / 0 } }
    assert_equal 1, mine(ended)[[__LINE__ - 1, "Object"]]
    assert_equal 7, (catch(:out) { Lancet.trace { throw :out, 7 } })
    assert_equal 5, Lancet.trace { break 5 }
    assert_raises(ArgumentError) { Lancet.trace }
    assert_equal 1, Lancet.trace { Object.new }.objects.sum(&:born)
  end

  def test_collections
    count = GC.count
    time = GC.total_time if GC.respond_to?(:total_time)
    trace = Lancet.trace { 3.times { GC.start } }
    assert_equal GC.count - count, trace.collections
    assert_operator trace.collections, :>=, 3
    return assert_nil(trace.collecting) unless time

    assert_in_delta (GC.total_time - time) / 1e9, trace.collecting, 1e-3
  end

  def test_time_is_this_threads
    other = Thread.new { Thread.stop }
    trace = Lancet.trace do
      spent = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + 0.05
      nil while Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) < spent
      sleep 0.05
    end
    assert_in_delta 0.05, trace.cpu, 0.01
    assert_operator trace.seconds, :>=, 0.1
  ensure
    other.kill
  end

  def test_fibers_are_of_their_thread
    trace = Lancet.trace { Fiber.new { 3.times { Object.new } }.resume }
    return assert_includes(trace.lost.join, "does not tell") unless Lancet::Fibers::TELLS

    assert_equal 3, mine(trace)[[__LINE__ - 3, "Object"]]
  end

  def test_without_objects
    trace = Lancet.trace(objects: false) { Object.new }
    assert_nil trace.objects
    refute trace.to_h[:tracers].key?(:objects)
  end

  def test_a_forked_child
    trace = Lancet.trace do
      Object.new
      child = fork do
        found = Lancet.trace { 3.times { Object.new } }
        exit!(found.objects.sum(&:born) == 3 ? 0 : 1)
      end
      Process.wait(child)
      assert_equal 0, $?.exitstatus
      Object.new
    end
    line = __LINE__ - 9
    assert_equal [1, 1], mine(trace).values_at([line, "Object"], [line + 7, "Object"])
  end

  # A trace needs nothing of the companion but the agent, which leaves some seconds after it has lost it. What is traced then says what it lacks, and the
  # next one, with another companion, is whole.
  def test_a_companion_that_is_killed
    objects = lambda do
      trace = Lancet.trace { Object.new && :answer }
      assert_equal :answer, trace.result
      trace.objects ? assert_equal(1, trace.objects.sum(&:born)) : assert_match(/gone/, trace.lost.join)
      trace.objects
    end
    assert objects.call
    killed = companion_pid
    Process.kill(:KILL, killed)
    assert objects.call
    door = Lancet::Births.door
    Timeout.timeout(LIMIT) { sleep(0.01) && objects.call while door.equal?(Lancet::Births.door) }
    assert objects.call
    refute_equal killed, companion_pid
  end

  # What is asked of a trace is no work of the thread that it is of, which may be within another one.
  def test_asked_by_another_thread
    outer = Lancet.trace do
      "abc".dup
      inner = Lancet::Trace.of(ended: ->(_) {}) { Object.new }
      Thread.new { [inner.to_json, inner.objects] }.join
      "abc".dup
    end
    line = __LINE__ - 5
    assert_equal [2, 1, 2], mine(outer).values_at([line, "String"], [line + 1, "Object"], [line + 3, "String"])
  end

  def test_exit_and_abort_within
    { "exit 7" => 7, "abort" => 1, "raise 'x'" => 1, "Thread.current.kill" => 0 }.each do |ending, wanted|
      _, err, code = ruby(script: "require 'lancet'\nMemprof.trace_calls = false\nMemprof.trace { Object.new && (#{ending}) }")
      assert_equal wanted, code, err
      assert_equal({ "Object" => 1 }, JSON.parse(err[/^{.*}$/])["tracers"]["objects"]["types"].slice("Object"))
    end
  end

  # Two methods on one line are one row, and so are two classes of one name.
  def test_one_row_for_each_line_and_type
    eval("def first_of; Object.new; end; def second_of; Object.new; end", TOPLEVEL_BINDING, "same.rb", 7)
    kinds = Array.new(2) { Class.new }
    trace = Lancet.trace { [first_of, second_of] && kinds.each(&:new) }
    assert_equal [2], (trace.objects.select { |row| row.path == "same.rb" }.map(&:born))
    unnamed = trace.objects.select { |row| row.type.start_with?("#<Class:0x") }
    assert_equal [1, 1], unnamed.map(&:born)
    told = JSON.parse(trace.to_json)["tracers"]["objects"]
    assert_equal trace.objects.map(&:to_s).sort, (told["lines"].map { |line| "#{line["file"]}:#{line["line"]}:#{line["type"]}" }.sort)
    assert_equal trace.created, told["created"]
    assert_equal trace.to_h[:tracers][:objects][:types], told["types"].transform_keys(&:to_s)
  end

  # A path is any bytes, and JSON is UTF-8.
  def test_paths_that_json_must_escape
    ["a\"b\\c.rb", "a\nb\u0001.rb", "\u00e4\u20ac.rb", "\xff\xfe.rb"].each do |path|
      trace = Lancet.trace(&eval("-> { Object.new }", binding, path, 3))
      assert_equal [path.scrub("\ufffd")], (JSON.parse(trace.to_json)["tracers"]["objects"]["lines"].map { |line| line["file"] })
    end
  end

  # Objects are not counted any more some seconds after the last trace, and again with the next one. What a trace has told is known as long as it is there, and what
  # was only read of an account as long as the agent is.
  def test_after_a_rest
    trace = Lancet.trace { 3.times { Object.new } }
    read = Lancet::Births.current.then { |births| births.end(births.begin) }
    door = Lancet::Births.door
    rows = read.instance_variable_get(:@rows)
    opened = lambda do
      folder = "/proc/#{companion_pid}/fd"
      Dir.children(folder).any? { |fd| (File.readlink("#{folder}/#{fd}") rescue "") == "/proc/#{Process.pid}/mem" }
    end
    assert opened.call
    assert_equal 0, door.count(rows)
    Timeout.timeout(LIMIT) { sleep 0.1 while opened.call }
    assert_equal [["Object", 3]], (trace.objects.map { |row| [row.type, row.born] })
    assert_raises(Lancet::Lost) { read.count }
    assert_equal 1, Lancet.trace { Object.new }.objects.sum(&:born)
    # The books of the agent that has come since are others.
    refute_same door, Lancet::Births.door
    [rows, nil, 7, "", "x" * 15, "x" * 16, "x" * 99, Object.new, :json].each do |wrong|
      %i[count json lines].each { |method| refute Lancet::Births.door.public_send(method, wrong) }
    end
  end

  # The hook is out some births after a trace and set again by the next one, for which code lies where other code lay.
  def test_between_traces_nothing_is_watched
    out = output_of(<<~'RUBY')
      Lancet.trace { Object.new }
      8.times do |round|
        5000.times { Object.new }
        made = Array.new(60) { |line| eval("-> { Class.new.new && Object.new }", binding, "code.rb", round * 100 + line) }
        GC.start
        5000.times { Object.new }
        number = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
        print Lancet::Births.door.begin(number), " "
        Lancet::Births.door.stop(number)
        5000.times { Object.new }
        found = Lancet.trace { made.each(&:call) }.objects.select { |row| row.path == "code.rb" && row.type == "Object" }
        puts found.map { |row| [row.line, row.born] }.sort == Array.new(60) { |line| [round * 100 + line, 1] }
        made = nil
        GC.start
      end
      Memprof.start
      $kept = Array.new(7) { Object.new }
      puts Memprof.rows.find { |row| row.type == "Object" }.live
      5000.times { Object.new }
      puts Lancet.trace { 3.times { Object.new } }.objects.sum(&:born)
    RUBY
    assert_equal "#{"2 true\n" * 8}7\n3\n", out
  end

  # It goes out soon where the next trace is long in coming, and stays in where one comes after the other.
  def test_how_long_the_hook_stays
    out = output_of(<<~'RUBY')
      clock = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) }
      # 1: the hook was in; 2: it was out.
      begins = lambda do
        number = clock[]
        Lancet::Births.door.begin(number).tap { Lancet::Births.door.stop(number) }
      end
      Lancet.trace { Object.new }
      3.times do
        200.times { Object.new }
        rested = clock[] + 20_000_000
        nil while clock[] < rested
        print begins[]
        200.times { Object.new }
        print begins[], " "
      end
      # The machine may take the processor away for longer than a rest is.
      found = Array.new(300) { 40.times { Object.new } && begins[] }
      puts found.count(1) > 200
    RUBY
    assert_equal "22 22 22 true
", out
  end

  # Objects of a stretch that took too little time to be told are not asked for.
  def test_what_nobody_wants_to_know
    told = []
    tracer = Lancet::Tracer.new(sample: 1, threshold: 60, log: nil) { |trace| told << trace }
    outer = Lancet.trace do
      _, trace = tracer.trace({}) { 3.times { Object.new } }
      assert_nil trace.objects
      assert_operator trace.seconds, :>, 0
      _, trace = tracer.trace({}, always: true) { 2.times { Object.new } }
      assert_equal 2, trace.created
    end
    assert_equal 1, told.size
    assert_equal [3, 2], mine(outer).values_at([__LINE__ - 7, "Object"], [__LINE__ - 4, "Object"])
    assert_equal 4, Lancet.trace { 4.times { Object.new } }.objects.sum(&:born)
  end

  # Ractors that are made while the hook is out, on a Ruby that does not bear both.
  def test_ractors_that_came_between_traces
    skip "there are no Ractors" unless defined?(Ractor)
    out = output_of(<<~'RUBY', options: %w[-W0])
      Lancet.trace { Object.new }
      5000.times { Object.new }
      ractor = Ractor.new { Ractor.receive }
      told = begin
        Lancet.trace { 3.times { Object.new } }.objects.sum(&:born)
      rescue Lancet::Error => e
        e.message
      end
      puts told
      ractor.send(1)
      ractor.take
      Thread.pass while Ractor.count > 1
      puts Lancet.trace { 3.times { Object.new } }.objects.sum(&:born)
      begin
        puts Ractor.new { Lancet.trace { 1 } }.take
      rescue Ractor::RemoteError => e
        puts e.cause.class
      end
    RUBY
    assert_match(/\A(3|.*Ractor.*)\n3\n(Ractor|Lancet)::\w*Error\n\z/, out)
  end

  # A trace that lasts longer than that is not cut.
  def test_a_long_trace
    trace = Lancet.trace do
      Object.new
      sleep 7
      Object.new
    end
    assert_equal 2, trace.objects.sum(&:born)
  end

  def test_many_lines
    code = Array.new(9000) { "Object.new" }.join("\n")
    lines = eval("-> {\n#{code}\n}", binding, "many.rb", 0)
    # What Ruby itself makes at a line that runs for the first time has rows too.
    lines.call
    trace = Lancet.trace(&lines)
    told = trace.objects.sum(&:born)
    lost = Integer(trace.lost.join[/\A(\d+) objects are not told/, 1])
    assert_operator told, :<=, 8192
    # Ruby makes some of its own there too, which need rows.
    assert_includes 9000..9100, told + lost
  end

  def test_traces_go_to_standard_error
    # Ruby would collect by itself now and then.
    GC.disable
    _, err = capture_io { assert_equal(4, Memprof.trace { Object.new && 4 }) }
    told = JSON.parse(err)
    assert_equal({ "Object" => 1 }, told["tracers"]["objects"]["types"])
    row = { "file" => __FILE__, "line" => __LINE__ - 3, "type" => "Object", "count" => 1 }
    assert_equal [row], told["tracers"]["objects"]["lines"]
    assert_equal 0, told["tracers"]["gc"]["calls"]
    assert_operator told["time"], :>, 0
  ensure
    GC.enable
  end

  def test_traces_go_to_a_file
    text = written do |file|
      Memprof.trace_filename = file
      2.times { Memprof.trace { Object.new } }
      env = { "REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "/app", "PATH_INFO" => "/cart", "QUERY_STRING" => "token=secret" }
      assert_equal [200, {}, []], Memprof.trace_request(env) { [200, {}, []] }
    end
    told = text.lines.map { |line| JSON.parse(line) }
    assert_equal [nil, nil, { "method" => "GET", "path" => "/app/cart" }], (told.map { |one| one["request"] })
    refute_includes text, "secret"
  end

  def test_what_writing_a_trace_makes_is_of_none
    capture_io do
      outer = Lancet.trace { Memprof.trace { Object.new } }
      assert_equal({ [__LINE__ - 1, "Object"] => 1 }, mine(outer))
      assert_equal 1, outer.objects.sum(&:born)
    end
  end

  def test_a_file_that_cannot_be_opened
    Memprof.trace_filename = "/no/such/folder/file"
    assert_match(/unable to open output file/, assert_raises(ArgumentError) { Memprof.trace { 1 } }.message)
  end

  def test_a_line_for_the_log
    env = { "REQUEST_METHOD" => "GET", "PATH_INFO" => "/a\e[31m\n" }
    line = Lancet::Trace.of(request: Lancet::Trace.request_of(env)) { Object.new }.to_s
    assert_match(/\Alancet: GET \/a\\e\[31m\\n \d+\.\d ms, \d+\.\d ms CPU, 1 objects\z/, line)
  end
end
