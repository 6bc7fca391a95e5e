require_relative "test_helper"
require "socket"

# Calls of one thread, by group.
class CountersTest < LancetTest
  def calls(**options, &block)
    trace = Lancet.trace(calls: true, **options, &block)
    found = trace.calls
    assert_empty trace.lost
    found
  end

  def test_reads_and_writes
    reader, writer = IO.pipe
    found = calls do
      3.times { writer.syswrite("12345") }
      reader.sysread(100)
    end
    assert_equal [[3, 15], [1, 15]], found.values_at(:write, :read).map { |sum| [sum.calls, sum.bytes] }
    assert_operator found[:read].time, :>, 0
    assert_equal %i[read write], found.keys
  end

  def test_connects
    server = TCPServer.new("127.0.0.1", 0)
    assert_equal 2, calls { 2.times { TCPSocket.new("127.0.0.1", server.addr[1]).close } }[:connect].calls
  ensure
    server.close
  end

  # Threads read at the same time, each its own number of bytes.
  def test_threads_apart
    found = Array.new(5) do |number|
      Thread.new do
        reader, writer = IO.pipe
        Array.new(10) do
          sum = Lancet.trace(calls: true) do
            (number + 1).times do
              writer.syswrite("1" * (number + 1))
              Thread.pass
              reader.sysread(100)
            end
          end.calls[:read]
          [sum.calls, sum.bytes]
        end.uniq
      end
    end
    assert_equal Array.new(5) { |number| [[number + 1, (number + 1)**2]] }, found.map(&:value)
  end

  def test_one_in_another
    _, writer = IO.pipe
    inner = nil
    outer = calls do
      writer.syswrite("1")
      inner = calls { 2.times { writer.syswrite("1") } }
    end
    # What the inner one takes to begin and to be told is this gem's own.
    assert_equal [2, 3], [inner, outer].map { |found| found[:write].calls }
  end

  # Each of two `lancet calls` sees the marks of the other.
  def test_one_in_another_of_other_groups
    _, writer = IO.pipe
    inner = nil
    outer = Lancet.trace(calls: %i[write connect], objects: false) do
      3.times { writer.syswrite("1") }
      inner = Lancet.trace(calls: %i[write sqlite], objects: false) { 2.times { writer.syswrite("1") } }
      writer.syswrite("1")
    end
    assert_equal [2, 6], [inner, outer].map { |trace| trace.calls[:write].calls }
    assert_empty inner.lost + outer.lost
  end

  # Processes that the companion has started to count calls.
  def commands
    started = Dir["/proc/#{companion_pid}/task/*/children"].flat_map { |file| File.read(file).split }
    started.select { |pid| File.read("/proc/#{pid}/cmdline").split("\0")[1] == "calls" }
  end

  def test_a_question_that_fails
    _, writer = IO.pipe
    calls { nil }
    counting = commands
    counters = Lancet::Counters.of(true)
    end_of_it = counters.mark
    error = assert_raises(Lancet::Error) { counters.between([[0, end_of_it]]) }
    assert_match(/more calls were made since than are kept/, error.message)
    refute_kind_of Lancet::Lost, error
    assert_equal 1, calls { writer.syswrite("1") }[:write].calls
    assert_equal counting, commands
    # Nobody has to know that these groups are counted already.
    watches = Array.new(2) { Lancet::Companion.begin("\"do\":\"counters\",\"groups\":#{Lancet::Companion.list(Lancet::Counters::USUAL.sort)}").last }
    assert_equal 1, watches.uniq.size
    assert_equal counting, commands
  end

  def test_the_same_choice_and_another_one
    usual = Lancet::Counters.of(true)
    assert_same usual, Lancet::Counters.of(true)
    chosen = %w[read write]
    first = Lancet::Counters.of(chosen)
    chosen << "connect"
    refute_same first, Lancet::Counters.of(chosen)
    chosen.pop
    assert_same first, Lancet::Counters.of(chosen)
    assert_same usual, Lancet::Counters.of(true)
  end

  def test_a_command_that_is_killed
    _, writer = IO.pipe
    calls { nil }
    killed = commands
    trace = Lancet.trace(calls: true, objects: false) { killed.each { |pid| Process.kill(:KILL, Integer(pid)) } }
    assert_nil trace.calls
    assert_match(/not told any more/, trace.lost.join)
    assert_equal 1, calls { writer.syswrite("1") }[:write].calls
    assert_equal 1, commands.size
  end

  # glibc 2.31 looks at the return address of its malloc, so `lancet calls` does not hook it.
  def memory_is_hooked?
    @memory_is_hooked ||= Lancet.calls("malloc") { nil }.said.none?(/not hooked: malloc/)
  end

  def test_memory_if_it_is_asked_for
    unless memory_is_hooked?
      trace = Lancet.trace(calls: %i[memory]) { nil }
      trace.calls
      return assert_match(/malloc/, trace.lost.join)
    end
    trace = Lancet.trace(calls: %i[memory]) { @kept = Array.new(10) { "x" * 5000 } }
    assert_operator trace.calls[:malloc].calls, :>=, 10
    assert_operator trace.calls[:malloc].bytes, :>=, 50_000
    assert_empty trace.lost
    refute trace.calls.key?(:read)
    error = assert_raises(Lancet::Error) { Lancet.trace(calls: %i[nothing]) { flunk } }
    assert_match(/in the groups malloc, /, error.message)
  end

  def test_statements_of_sqlite
    begin
      require "sqlite3"
    rescue LoadError => e
      skip e.message
    end
    db = SQLite3::Database.new(":memory:")
    db.execute("CREATE TABLE t (a)")
    db.execute("SELECT a FROM t")
    found = calls do
      5.times { |number| db.execute("INSERT INTO t VALUES (?)", [number]) }
      2.times { db.execute("SELECT a FROM t") }
    end
    assert_equal 7, found[:sqlite].calls
  end

  def test_as_json_and_in_the_log
    _, writer = IO.pipe
    trace = Lancet.trace(calls: true, objects: false) { writer.syswrite("12345") }
    assert_match(/, write 1 in \d+\.\d ms\z/, trace.to_s)
    told = JSON.parse(JSON.generate(trace.to_h))["tracers"]["write"]
    assert_equal [1, 5], told.values_at("calls", "bytes")
    _, err = capture_io { Memprof.trace { writer.syswrite("12345") } }
    assert_equal 1, JSON.parse(err)["tracers"]["write"]["calls"]
  end

  # What memprof's own specs of tracing asked for.
  def test_a_trace_of_memprof
    server = TCPServer.new("127.0.0.1", 0)
    answers = Thread.new { server.accept.tap { |client| client.syswrite(client.sysread(5)) }.close }
    Memprof.trace_calls = Lancet::Counters::USUAL + [:memory]
    collections = nil
    text = written do |file|
      Memprof.trace(file) do
        # The VM may collect of itself, too.
        before = GC.count
        client = TCPSocket.new("127.0.0.1", server.addr[1])
        client.syswrite("hello")
        client.read
        10.times { 1.0e300 * 1.5 }
        10.times { GC.start }
        10.times { ("abc" * 1000) << ("def" * 5000) }
        collections = GC.count - before
      end
    end
    assert_equal memory_is_hooked?, JSON.parse(text)["lost"].empty?
    told = JSON.parse(text)["tracers"]
    %w[read write connect].each { |group| assert_operator told[group]["calls"], :>=, 1, group }
    assert_equal 10, told["objects"]["types"]["Float"]
    assert_operator collections, :>=, 10
    assert_equal collections, told["gc"]["calls"]
    return unless memory_is_hooked?

    assert_operator told["malloc"]["calls"], :>=, 20
    assert_operator told["free"]["calls"], :>=, 10
  ensure
    Memprof.trace_calls = true
    answers.join
    server.close
  end

  # The program computes on, the trace says what it lacks, the next one is whole.
  def test_a_companion_that_is_killed
    _, writer = IO.pipe
    trace = Lancet.trace(calls: true, objects: false) do
      Process.kill(:KILL, companion_pid)
      writer.syswrite("1")
    end
    assert_nil trace.calls
    assert_match(/ended/, trace.lost.join)
    assert_equal 1, calls { writer.syswrite("1") }[:write].calls
  end

  # A question may take seconds, and each figure wants to know.
  def test_a_question_that_fails_is_not_asked_again
    trace = Lancet.trace(calls: true) { nil }
    asked = 0
    counters = Object.new
    counters.define_singleton_method(:between) { |*| raise Lancet::Error, "question #{asked += 1}" }
    trace.instance_variable_set(:@counters, counters)
    assert_equal ["question 1"], [trace.to_s, trace.to_json, trace.to_h, trace.lost].last
    assert_equal 1, asked
  end

  def test_a_forked_child
    _, writer = IO.pipe
    calls { writer.syswrite("1") }
    child = fork { exit!(calls { 3.times { writer.syswrite("1") } }[:write].calls == 3 ? 0 : 1) }
    Process.wait(child)
    assert_equal 0, $?.exitstatus
  end
end
