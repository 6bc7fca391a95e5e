require_relative "test_helper"
require "lancet/tracer"

# Accounts of threads are closed, whatever comes in between.
class AccountsTest < LancetTest
  # An account that is left open is counted in for ever, and its thread is refused when the agent has left.
  def test_whatever_comes_in_between_accounts_are_closed
    opened = -> { Lancet::Births.current.instance_variable_get(:@depth) }
    assert_raises(ArgumentError) { Lancet::Tracer.new(threshold: "0.5") }
    told = []
    tracer = Lancet::Tracer.new(sample: 1, threshold: nil, log: nil) { |trace| told << trace }
    assert_equal 3, tracer.trace({}) { Object.new && 3 }.first
    assert_equal 1, told.first.created
    trace = Lancet::Trace.new(nil)
    trace.begin(true, false)
    assert_equal 1, opened.call
    trace.define_singleton_method(:stop) { raise TypeError }
    assert_raises(TypeError) { trace.finish(nil) }
    assert_equal 0, opened.call
    trace = Lancet::Trace.new(nil)
    trace.begin(true, false)
    2.times { trace.drop }
    assert_equal 0, opened.call
  end

  # A stretch that was never ended, as in a fiber that nobody resumes, and then the agent has left: the next trace is whole.
  def test_an_agent_that_left_in_the_midst_of_a_stretch
    out = output_of(<<~'RUBY')
      Lancet.trace { 1 }
      births = Lancet::Births.current
      outer = births.begin
      door = Lancet::Births.door
      read = door.method(:read)
      has_left = true
      door.define_singleton_method(:read) { |number| has_left ? false : read.call(number) }
      inner = births.begin
      has_left = false
      3.times { Object.new }
      print births.end(inner).count, " "
      begin
        births.end(outer)
      rescue Lancet::Lost
        print "lost "
      end
      print Lancet.trace { 2.times { Object.new } }.created
    RUBY
    assert_equal "3 lost 2", out
  end

  # What a thread had not ended when it ended is ended by the companion, which leaves.
  def test_a_thread_that_ends_within_a_trace
    Thread.new { Fiber.new { Lancet.trace { Fiber.yield } }.resume }.join
    folder = "/proc/#{companion_pid}/fd"
    opened = -> { Dir.children(folder).any? { |fd| (File.readlink("#{folder}/#{fd}") rescue "") == "/proc/#{Process.pid}/mem" } }
    assert opened.call
    # Not by Timeout, whose thread may get the kernel's thread of the other, which Ruby keeps for the next one.
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + LIMIT
    sleep 0.1 while opened.call && Process.clock_gettime(Process::CLOCK_MONOTONIC) < deadline
    refute opened.call
  end
end
