require_relative "test_helper"
require "lancet/minitest"

class WatchTest < LancetTest
  include Lancet::Assertions

  def test_calls_of_a_c_function
    seen = Lancet.calls("getppid") { Array.new(3) { Process.ppid } }
    assert_equal [Process.ppid] * 3, seen.result
    assert_equal [__LINE__ - 2] * 3, (seen.map { |call| call[:place][:line] })
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
    assert_equal [__FILE__, __LINE__ - 5], seen.first[:place].values_at(:path, :line)
  end

  def test_not_what_asking_takes
    seen = Lancet.syscalls { Process.ppid }
    refute_empty(seen.select { |call| call[:name] == "getppid" })
    own = seen.select { |call| call.values_at(:place, :library).compact.any? { |line| line[:path].include?("/lib/lancet/") } }
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

  # Its rows are those of the program, and its sum is theirs.
  def test_a_table_of_counts_of_system_calls
    seen = Lancet.syscalls(c: true) { 5.times { Process.ppid } }
    counts = seen.select { |row| row[:record] == "count" }
    assert_equal 5, (counts.select { |row| row[:name] == "getppid" }.sum { |row| row[:calls] })
    refute(counts.any? { |row| row[:place].to_s.include?("/lib/lancet/") })
    assert_equal counts.sum { |row| row[:calls] }, seen.find { |row| row[:record] == "sum" }[:calls]
    refute(seen.any? { |row| %w[process losses].include?(row[:record]) })
    file = nil
    seen = Lancet.syscalls(leaks: true) { file = File.open("/dev/null") }
    assert_includes seen.map { |row| row[:example] }, "/dev/null"
  ensure
    file&.close
  end

  # A companion that answers `finish` with this.
  def beside_one_that_finishes_with(answer, script)
    output_beside(<<~COMPANION, <<~RUBY)
      while (line = $stdin.gets)
        id = line[/\\d+/]
        line.include?("finish") ? puts(#{answer.inspect}.gsub("ID", id)) : puts(%({"id":\#{id},"ok":{"watch":1}}))
      end
    COMPANION
      require "lancet/minitest"
      include Lancet::Assertions
      def assert(is, message)
        print is ? "." : message
      end
      begin
        #{script}
      rescue Lancet::Lost => e
        print e.message
      end
    RUBY
  end

  # An upper bound says nothing where calls may be missing.
  def test_what_was_lost_is_told
    call = '{"id":ID,"record":{"record":"call","place":null}}'
    losses = '{"id":ID,"record":{"record":"losses","losses":[{"pid":1,"what":"records","count":7,"text":"7 calls are not shown"}],"more":2}}'
    finished = "#{call}\n#{losses}\n" + '{"id":ID,"ok":{"exit":4,"said":["said"],"lost":3}}'
    told = "7 calls are not shown\n2 more losses\n3 records found no room"
    assert_equal "1 #{told}", beside_one_that_finishes_with(finished, 'seen = Lancet.calls("f") { 1 }; print seen.size, " ", seen.lost.join("\n")')
    assert_equal ".whether f was called at most 1 times is not known:\n#{told}", beside_one_that_finishes_with(finished, 'assert_calls(1, "f") { 1 }')
  end

  def test_a_watch_that_was_killed_has_seen_nothing_whole
    killed = '{"id":ID,"ok":{"exit":null,"said":["why"],"lost":0}}'
    told = "lancet calls was ended before its block, and what it had seen is not all: why"
    assert_equal told, beside_one_that_finishes_with(killed, 'assert_calls(1, "f") { 1 }')
    assert_equal "KeyError", beside_one_that_finishes_with(killed, 'begin; Lancet.calls("f") { raise KeyError }; rescue KeyError => e; print e.class; end')
  end

  def test_a_function_that_is_nowhere
    seen = Lancet.calls("no_such_function") { 1 }
    assert_predicate seen, :nowhere?
    assert_empty seen.lost
    _, err = capture_io { assert_calls(1, "no_such_function") { 1 } }
    assert_match(/no function no_such_function in this process/, err)
  end

  # RSpec takes what an expectation within a block raises for an answer of the matcher's, unless it is told otherwise.
  def test_expectations_within_matchers
    out = output_of(<<~'RUBY')
      begin
        require "lancet/rspec"
      rescue LoadError
        print "no RSpec"
        exit
      end
      include RSpec::Matchers
      [-> { expect { expect(1).to eq 2 }.not_to leak }, -> { expect { expect(1).to eq 2 }.to allocate_at_most(100).objects },
       -> { expect { Object.new }.to allocate_at_most(0).objects }].each do |test|
        test.call
        puts "passed"
      rescue RSpec::Expectations::ExpectationNotMetError => e
        puts e.message.lines.grep(/expected|made/)
      end
    RUBY
    skip out if out == "no RSpec"
    assert_equal ["expected: 2", "expected: 2", "1 objects were made, at most 0 allowed:"], out.lines.map(&:strip)
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
