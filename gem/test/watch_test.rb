require_relative "test_helper"
require "lancet/minitest"

class WatchTest < LancetTest
  include Lancet::Assertions

  def test_calls_of_a_c_function
    seen = Lancet.calls("getppid") { Array.new(3) { Process.ppid } }
    assert_equal [Process.ppid] * 3, seen.result
    assert_equal [__LINE__ - 2] * 3, (seen.map { |call| call[:line][:line] })
    assert_equal [Process.ppid.to_s] * 3, (seen.map { |call| call[:result] })
    assert_match(/1 of 1 functions hooked/, seen.said.join)
  end

  def test_system_calls_by_name
    seen = Lancet.syscalls(:openat, :getppid) do
      File.read("/dev/null")
      Process.ppid
    end
    assert_equal %w[openat getppid], (seen.map { |call| call[:name] })
    assert_equal "\"/dev/null\"", seen.first[:arguments][1]
    assert_equal [__FILE__, __LINE__ - 5], seen.first[:line].values_at(:path, :line)
  end

  def test_not_what_asking_takes
    seen = Lancet.syscalls { Process.ppid }
    refute_empty(seen.select { |call| call[:name] == "getppid" })
    own = seen.select { |call| call.values_at(:line, :library).compact.any? { |line| line[:path].include?("/lib/lancet/") } }
    assert_empty own
  end

  def test_options_are_those_of_the_command
    seen = Lancet.syscalls(:openat, failed_only: true) { [File.exist?("/"), (File.read("/no/file") rescue 0), File.read("/dev/null")] }
    assert_equal ["ENOENT"], (seen.map { |call| call[:errno] })
  end

  def test_a_table_of_counts
    seen = Lancet.calls("getppid", c: true) { 5.times { Process.ppid } }
    assert_equal 5, seen.find { |row| row[:record] == "total" }[:calls]
  end

  def test_one_in_another
    inner = nil
    outer = Lancet.calls("getppid") do
      Process.ppid
      inner = Lancet.calls("getppid") { Process.ppid }
    end
    assert_equal [2, 1], [outer.size, inner.size]
  end

  def test_exceptions
    assert_raises(ZeroDivisionError) { Lancet.calls("getppid") { 1 / 0 } }
    assert_equal 3, (catch(:out) { Lancet.calls("getppid") { throw :out, 3 } })
    error = assert_raises(Lancet::Error) { Lancet.calls("getppid", no_such_option: 1) { flunk } }
    assert_match(/no-such-option/, error.message)
    assert_raises(ArgumentError) { Lancet.calls("getppid") }
  end

  # What a command has told that was killed is not taken for all of it, and why it is missing is said.
  def test_a_command_that_is_killed
    companion = Lancet::Companion.current.pid
    asked = Thread.new { assert_raises(Lancet::Error) { Lancet.stack(for: "60s") }.message }
    Timeout.timeout(LIMIT) do
      children = -> { Dir["/proc/#{companion}/task/*/children"].flat_map { |file| File.read(file).split } }
      Thread.pass until (command = children.call.find { |pid| File.read("/proc/#{pid}/cmdline").split("\0")[1] == "stack" })
      Process.kill(:KILL, Integer(command))
      assert_equal "lancet stack has ended without a word (signal: 9 (SIGKILL))", asked.value
    end
  end

  def test_stacks
    thread = Thread.new { Thread.stop }
    Thread.pass until thread.stop?
    # The VM's own threads run no Ruby.
    stacks = Lancet.stack.select { |record| record[:record] == "stack" && record[:language] }
    assert_operator stacks.size, :>=, 2
    assert(stacks.all? { |stack| stack[:language].start_with?("Ruby #{RUBY_VERSION}") })
  ensure
    thread.kill
  end

  def test_assert_calls
    assert_calls(2, "getppid") { 2.times { Process.ppid } }
    error = assert_raises(Minitest::Assertion) { assert_calls(1, "getppid") { 2.times { Process.ppid } } }
    assert_match(/called 2 times, at most 1/, error.message)
  end
end
