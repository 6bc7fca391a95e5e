require_relative "test_helper"
require "lancet/minitest"

# What comes in between: exceptions of other threads, signals, forks, and what a program does with all that is open.
class InterruptedTest < LancetTest
  include Lancet::Assertions

  def alive?(pid)
    !%w[Z X].include?(File.read("/proc/#{pid}/stat")[/\) (.)/, 1])
  rescue SystemCallError
    false
  end

  def sockets_of(pid)
    Dir.children("/proc/#{pid}/fd").map { |fd| File.readlink("/proc/#{pid}/fd/#{fd}") rescue "" }.grep(/\Asocket:/)
  end

  # Timeout before its version 0.4 leaves the call by `throw`, unless it is given an error of the program's.
  def test_a_time_limit_within_a_call
    out = output_beside("$stdin.read", <<~'RUBY')
      require "timeout"
      [[], [KeyError]].each do |error|
        companion = Lancet::Companion.current
        begin
          Timeout.timeout(0.2, *error) { Lancet.stack }
        rescue Timeout::Error, KeyError => e
          print e.class, " ", companion.over?, " "
        end
      end
    RUBY
    assert_equal "Timeout::Error true KeyError true ", out
  end

  # A program that stays, and says nothing.
  def test_a_time_limit_while_it_is_started
    Tempfile.create("companion") do |file|
      file.write("#!/bin/sh\nexec cat\n")
      file.close
      File.chmod(0o755, file.path)
      out = output_of(<<~'RUBY', env: { "LANCET_BIN" => file.path })
        require "timeout"
        opened = -> { Dir.children("/proc/self/fd").size }
        before = opened.call
        2.times do
          Timeout.timeout(0.2) { Lancet.stack }
        rescue Timeout::Error
          print opened.call - before, " "
        end
      RUBY
      assert_equal "0 0 ", out
    end
  end

  # What the block raises is its own, and the next request is answered.
  def test_a_block_that_raises_within_an_answer
    Memprof.start
    @kept = Array.new(3) { Object.new }
    companion = Lancet::Companion.current
    assert_raises(Errno::ENOSPC) { Memprof.dump("/dev/full") }
    refute companion.over?
    assert Memprof.stop
  end

  def test_the_handler_of_a_signal
    out = output_of(<<~'RUBY')
      told = nil
      trap(:USR1) do
        Lancet.stack
      rescue Lancet::Error => e
        told = e.message
      end
      Process.kill(:USR1, $$)
      Thread.pass until told
      print told, Lancet.stack.empty?
    RUBY
    assert_match(/\Alancet cannot be asked by the handler of a signal: have a thread do it.*false\z/, out)
  end

  def test_the_last_status_is_the_programs
    assert_equal "3", output_of("system('exit 3'); Lancet::Companion.current; print $?.exitstatus")
  end

  def test_a_program_that_closes_everything
    out = output_of(<<~'RUBY')
      Lancet::Companion.current
      ObjectSpace.each_object(IO) { |io| io.close unless io.closed? || io.fileno < 3 }
      print Lancet.stack.empty?
    RUBY
    assert_equal "false", out
  end

  # The child has the parent's pipes: that they are closed in the parent nobody else hears.
  def test_a_companion_that_is_given_up_beside_a_child
    pid = companion_pid
    reader, writer = IO.pipe
    child = fork do
      writer.close
      reader.read
      exit!(0)
    end
    Lancet::Companion.current.abandon
    Timeout.timeout(LIMIT) { sleep 0.01 while alive?(pid) }
    assert alive?(child)
  ensure
    writer.close
    Process.wait(child)
  end

  def test_a_child_keeps_no_socket_of_its_parent
    skip "this Ruby does not tell of a fork" unless Process.respond_to?(:_fork)

    companion_pid
    ours = File.readlink("/proc/self/fd/#{Lancet::Companion.current.instance_variable_get(:@socket).fileno}")
    assert_includes sockets_of(Process.pid), ours
    child = fork { exit!(sockets_of(Process.pid).count(ours)) }
    Process.wait(child)
    assert_equal 0, $?.exitstatus
  end

  def test_a_child_that_leaves_the_block_of_its_parent
    child = nil
    seen = Lancet.calls("getppid") do
      Process.ppid
      child = fork
    end
    unless child
      exit!(seen.size.zero? && seen.lost.join.include?("forked within the block") ? 0 : 1)
    end
    Process.wait(child)
    assert_equal [0, 1, []], [$?.exitstatus, seen.size, seen.lost]
  end

  def test_a_child_within_a_block_has_its_own
    text = nil
    Memprof.track(File::NULL) do
      child = fork do
        Memprof.start
        @kept = "abc"
        text = written { |file| Memprof.stats(file) }
        exit!(text.include?(":#{__LINE__ - 2}:String") && !Memprof.start ? 0 : 1)
      end
      Process.wait(child)
    end
    assert_equal 0, $?.exitstatus
  end

  # Process 1 of a container is given the companion's orphans, and may take their code for that of a worker of its own: it is that of a command whose
  # output nobody reads any more.
  def test_a_command_that_outlives_its_companion
    out = output_of(<<~'RUBY', options: ["-W0"])
      # PR_SET_CHILD_SUBREAPER
      syscall(157, 36, 1, 0, 0, 0)
      begin
        # What is nowhere is a loss, and its code would be 4.
        Lancet.calls("no_such_function") { Process.kill(:KILL, Lancet::Companion.current.pid) }
      rescue Lancet::Lost
        print "lost "
      end
      # The companion itself was killed.
      print Process.waitall.map { |_, status| status.exitstatus }.compact.uniq
    RUBY
    assert_equal "lost [0]", out
  end

  # That the companion is gone is told only where nothing else is.
  def test_what_the_program_raises_is_not_replaced
    [->(&block) { Lancet.calls("getppid", &block) }, Lancet.method(:allocations)].each do |watch|
      assert_raises(KeyError) { watch.call { killed && raise(KeyError) } }
      assert_equal 7, (catch(:out) { watch.call { killed && throw(:out, 7) } })
      assert_raises(Lancet::Lost) { watch.call { killed } }
    end
  end

  def test_nor_by_a_trace_that_cannot_be_written
    assert_raises(KeyError) { Memprof.trace("/no/such/folder/file") { raise KeyError } }
    begin
      raise KeyError
    rescue KeyError
      assert_raises(ArgumentError) { Memprof.trace("/no/such/folder/file") { 1 } }
    end
  end

  private

  def killed
    pid = companion_pid
    Process.kill(:KILL, pid)
    Timeout.timeout(LIMIT) { Thread.pass while alive?(pid) }
    true
  end
end
