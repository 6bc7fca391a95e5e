require_relative "test_helper"
require "fiber"

# A trace is of the fiber that has begun it, whatever others do on its thread meanwhile.
class FibersTest < LancetTest
  # Whether this Ruby says which fiber has resumed another.
  TELLS = RUBY_VERSION.to_i >= 3

  # A thread that stands in a fiber cannot be asked to open this program, so that is done before.
  def setup
    Lancet.trace {}
  end

  def strings(trace)
    trace.objects.select { |row| row.path == __FILE__ && row.type == "String" }.sum(&:born)
  end

  def make(number)
    number.times { String.new }
  end

  # Ruby is asked of switches until one comes while no trace is open.
  def hears?
    Fiber.new {}.resume
    Lancet::Fibers.instance_variable_get(:@hears)
  end

  def test_two_fibers_in_turns
    first = second = nil
    one = Fiber.new do
      first = Lancet.trace do
        make(5)
        Fiber.yield
        make(5)
      end
    end
    other = Fiber.new { second = Lancet.trace { make(1000) } }
    one.resume
    assert hears?
    other.resume
    make(100)
    one.resume
    assert_equal [10, 1000], [first.created, second.created]
    assert_equal [10, 1000], [strings(first), strings(second)]
    assert_empty second.lost
    assert_empty first.lost if TELLS
    refute hears?
  end

  # As the requests of an asynchronous server: each step of each beside those of the others, on several threads.
  def test_many_fibers_on_several_threads
    found = Array.new(3) do
      Thread.new do
        traces = {}
        fibers = Array.new(20) do |number|
          Fiber.new do
            traces[number] = Lancet.trace do
              100.times do
                make(number)
                Fiber.yield
              end
            end
            :done
          end
        end
        fibers.delete_if { |fiber| fiber.resume == :done } until fibers.empty?
        traces
      end
    end
    found.map(&:value).each do |traces|
      assert_equal((0...20).to_h { |number| [number, number * 100] }, traces.transform_values { |trace| strings(trace) })
    end
    refute hears?
  end

  # The block waits for a fiber that it resumes as it waits for a method, and this one may resume another.
  def test_what_the_block_resumes_is_its_own
    within = Fiber.new do
      make(3)
      Fiber.new { make(30) }.resume
      Fiber.yield
      make(1000)
    end
    numbers = Enumerator.new do |to|
      make(300)
      to << 1
    end
    trace = Lancet.trace do
      within.resume
      numbers.next
    end
    within.resume
    return assert_includes(trace.lost.join, "does not tell") unless TELLS

    assert_equal 333, strings(trace)
    assert_empty trace.lost
  end

  # Traces in one another: the inner one's pauses are the outer one's.
  def test_traces_in_one_another
    inner = outer = nil
    fiber = Fiber.new do
      outer = Lancet.trace do
        make(1)
        inner = Lancet.trace do
          make(10)
          Fiber.yield
          make(10)
        end
        Fiber.yield
        make(1)
      end
    end
    3.times do
      fiber.resume
      make(1000)
    end
    assert_equal [20, 22], [inner, outer].map { |trace| strings(trace) }
    refute hears?
  end

  # Time of the processor and calls that other fibers have taken are not of the trace.
  def test_time_and_calls
    skip "no calls can be counted here" unless File.readable?("/etc/hostname")
    trace = nil
    fiber = Fiber.new do
      trace = Lancet.trace(calls: [:read]) do
        File.binread("/etc/hostname")
        Fiber.yield
        File.binread("/etc/hostname")
      end
    end
    fiber.resume
    20.times { File.binread("/etc/hostname") }
    used = -> { Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) }
    until_then = used.call + 0.5
    Thread.pass until used.call > until_then
    fiber.resume
    alone = Lancet.trace(calls: [:read]) { 2.times { File.binread("/etc/hostname") } }
    assert_operator alone.calls[:read].calls, :>, 0
    assert_equal alone.calls[:read].calls, trace.calls[:read].calls
    assert_operator trace.cpu, :<, 0.5
  end

  # A fiber that is given up in the middle, or raises, leaves the others right; so does one that ends with its thread.
  def test_what_does_not_end_well
    raises = Fiber.new { Lancet.trace { raise "no" } }
    assert_raises(RuntimeError) { raises.resume }
    refute hears?
    Thread.new do
      given_up = Fiber.new { Lancet.trace { Fiber.yield } }
      given_up.resume
    end.join
    trace = Lancet.trace { make(7) }
    assert_equal 7, strings(trace)
  end
end
