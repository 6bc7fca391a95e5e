require_relative "test_helper"
require "tmpdir"

# The lancet beside this process: it must never hurt it, and what happens to it is said once.
class CompanionTest < LancetTest
  def teardown
    Memprof.stop
  rescue Lancet::Lost
    nil
  end

  def killed
    pid = companion_pid
    Process.kill(:KILL, pid)
    # It is not our child: nobody tells us that it is gone, but its place in /proc.
    Timeout.timeout(LIMIT) { Thread.pass while alive?(pid) }
    false
  end

  def alive?(pid)
    !%w[Z X].include?(File.read("/proc/#{pid}/stat")[/\) (.)/, 1])
  rescue SystemCallError
    false
  end

  def test_it_is_nobodys_child_of_ours
    companion_pid
    assert_raises(Errno::ECHILD) { Process.wait(-1, Process::WNOHANG) }
  end

  def test_it_ends_with_us
    pid = Integer(output_of("Memprof.start; puts Lancet::Companion.current.pid"))
    Timeout.timeout(LIMIT) { sleep 0.01 while alive?(pid) }
    pid = Integer(output_of("Memprof.start; puts Lancet::Companion.current.pid; $stdout.flush; Process.kill(:KILL, $$) rescue 0; sleep",
                            code: 137))
    Timeout.timeout(LIMIT) { sleep 0.01 while alive?(pid) }
  end

  def test_killed_while_objects_are_tracked
    Memprof.start
    killed
    assert_raises(Lancet::Lost) { Memprof.stats }
    # Once: then nothing is tracked.
    assert_raises(RuntimeError) { Memprof.stats }
    assert Memprof.start
    assert_nil Memprof.stats(File::NULL)
  end

  def test_killed_and_started_again
    Memprof.start
    killed
    assert Memprof.start, "what was tracked is gone, so this starts anew"
    @kept = "abc"
    assert_match(/:#{__LINE__ - 1}:String$/, written { |file| Memprof.stats(file) })
  end

  def test_killed_within_a_block
    assert_raises(Lancet::Lost) { Memprof.track { killed } }
    assert_raises(ZeroDivisionError) { Memprof.track { killed || 1 / 0 } }
    assert_equal 2, Lancet.allocations { 2 }.result
  end

  def test_killed_before_a_call
    Lancet.stack
    killed
    refute_empty Lancet.stack
    killed
    assert_equal 1, Lancet.calls("getppid") { Process.ppid }.size
  end

  # A companion that answers with one record and is gone: what the block has got it does not get again.
  # A program may have the system's own handling of SIGPIPE, by which a write into a pipe without reader ends it.
  def test_killed_where_a_broken_pipe_ends_a_program
    script = <<~RUBY
      trap("PIPE", "SYSTEM_DEFAULT")
      Memprof.start
      pid = Lancet::Companion.current.pid
      Process.kill(:KILL, pid)
      gone = -> { %w[Z X].include?(File.read("/proc/\#{pid}/stat")[/\\) (.)/, 1]) rescue true }
      Thread.pass until gone.call
      begin
        Memprof.stats
      rescue Lancet::Lost
        puts "lost"
      end
      p Lancet.allocations { 1 }.result
    RUBY
    assert_equal "lost\n1\n", output_of(script)
  end

  def test_it_ends_first_where_memory_ends
    companion_pid
    assert_equal "1000", File.read("/proc/#{Lancet::Companion.current.pid}/oom_score_adj").strip
    refute_equal "1000", File.read("/proc/self/oom_score_adj").strip
  end

  def test_killed_after_a_record
    out = output_beside(<<~'COMPANION', <<~'RUBY')
      $stdin.gets
      puts '{"id":1,"record":{"a":1}}'
    COMPANION
      got = []
      begin
        Lancet::Companion.begin('"do":"run"') { |record| got << record }
      rescue Lancet::Lost
        print "lost "
      end
      print got.size
    RUBY
    assert_equal "lost 1", out
  end

  # At any instant: we compute on, and each call works or says so.
  def test_killed_at_random_instants
    rounds = Integer(ENV["LANCET_KILLS"] || 40)
    random = Random.new
    lost = 0
    rounds.times do
      pid = companion_pid
      killer = Process.spawn(RbConfig.ruby, "--disable-gems", "-e", "sleep #{random.rand(0.03)}; Process.kill(:KILL, #{pid}) rescue 0")
      until alive?(pid) == false
        begin
          Memprof.track(File::NULL) { 100.times { "abc".dup } }
        rescue Lancet::Lost
          lost += 1
        end
      end
      Process.wait(killer)
    rescue Lancet::Lost
      lost += 1
    end
    assert_operator lost, :<=, rounds
    assert_equal 5050, (1..100).sum { |number| number.to_s.to_i }
    assert_equal 1, written { |file| Memprof.track(file) { @kept = "abc" } }.lines.size
  end

  def test_a_stopped_companion_does_not_take_us_along
    Memprof.start
    Process.kill(:STOP, companion_pid)
    # Its agent hears nothing of it and leaves by itself; objects are made meanwhile.
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 7
    "abc".dup while Process.clock_gettime(Process::CLOCK_MONOTONIC) < deadline
    Process.kill(:CONT, companion_pid)
    error = assert_raises(Lancet::Lost) { Memprof.stats }
    assert_match(/heard nothing/, error.message)
    assert_raises(RuntimeError) { Memprof.stats }
    assert Memprof.start
  end

  # It has our memory open as long as objects are counted, and a little longer.
  def test_it_leaves_when_it_has_nothing_to_do
    opened = lambda do
      folder = "/proc/#{companion_pid}/fd"
      Dir.children(folder).any? { |fd| (File.readlink("#{folder}/#{fd}") rescue "") == "/proc/#{Process.pid}/mem" }
    end
    Memprof.start
    assert opened.call
    Memprof.stop
    Timeout.timeout(LIMIT) { sleep 0.1 while opened.call }
    assert_equal 1, written { |file| Memprof.track(file) { @kept = "abc" } }.lines.size
  end

  def test_a_forked_child_has_its_own
    Memprof.start
    ours = companion_pid
    @kept = "abc"
    line = __LINE__ - 1
    reader, writer = IO.pipe
    child = fork do
      reader.close
      said = []
      said << begin
        Memprof.stats
      rescue RuntimeError => e
        e.message[/Memprof.start/]
      end
      said << (companion_pid != ours)
      said << written { |file| Memprof.track(file) { @b = "abc" } }.lines.size
      writer.write(said.inspect)
      writer.close
      exit!(0)
    end
    writer.close
    assert_equal '["Memprof.start", true, 1]', reader.read
    Process.wait(child)
    assert_equal ours, companion_pid
    assert_match(/ 1 .*:#{line}:String$/, written { |file| Memprof.stats(file) })
  end

  def test_a_fork_within_a_block
    text = written do |file|
      Memprof.track(file) do
        @kept = "abc"
        if (child = fork)
          Process.wait(child)
          assert_equal 0, $?.exitstatus
        else
          exit!(Lancet.allocations { "abc".dup }.of_type(String) == 2 ? 0 : 1)
        end
      end
    end
    assert_match(/ 1 .*:#{__LINE__ - 9}:String$/, text)
  end

  def test_a_child_that_leaves_the_block
    out = output_of("Memprof.track(File::NULL) { fork }; $stdout.write('x'); Process.waitall")
    assert_equal "xx", out
  end

  def test_an_interrupted_call
    inside = Queue.new
    thread = Thread.new do
      Lancet.syscalls do
        inside << true
        sleep
      end
    end
    thread.report_on_exception = false
    Timeout.timeout(LIMIT) { inside.pop }
    thread.raise(KeyError, "enough")
    assert_raises(KeyError) { thread.value }
    assert_equal 1, Lancet.calls("getppid") { Process.ppid }.size
  end

  # `lancet mem` from outside, and blocks within, at once.
  def test_a_line_that_the_companion_cannot_read
    companion = Lancet::Companion.current
    error = assert_raises(Lancet::Error) { Timeout.timeout(LIMIT) { companion.ask("\"do\":nonsense") } }
    assert_match(/at line 1 column/, error.message)
    assert_same companion, Lancet::Companion.current
    refute_empty Lancet.stack
  end

  def test_beside_a_lancet_from_outside
    program = Lancet::Program.path
    Memprof.start
    Open3.popen3(program, "mem", "--format", "json", "-p", Process.pid.to_s, "--for", "500ms") do |_, out, err, wait|
      @kept = Array.new(100) { "abc" }
      text = out.read
      assert_equal 0, wait.value.exitstatus, err.read
      assert_match(/"record":"total"/, text)
    end
    assert_match(/^ +100 .*:#{__LINE__ - 5}:String$/, written { |file| Memprof.stats(file) })
  end

  # Births are not watched beside a Ractor in these VMs (docs/versions.md).
  REFUSES_RACTORS = defined?(Ractor) && Gem::Version.new(RUBY_VERSION).then do |version|
    version < Gem::Version.new("3.1.4") || version >= Gem::Version.new("3.2")
  end

  def test_the_first_ractor
    skip "this Ruby has no Ractors, or bears them" unless REFUSES_RACTORS

    out = output_of(<<~'RUBY', options: ["-W0"])
      Memprof.start
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      ractor = Ractor.new { Ractor.receive }
      print Process.clock_gettime(Process::CLOCK_MONOTONIC) - began < 3, " "
      begin
        Memprof.stats
      rescue Lancet::Lost
        print "lost "
      end
      begin
        Memprof.start
      rescue Lancet::Error => e
        print e.message[/Ractor/], " "
      end
      ractor.send(5)
      print ractor.respond_to?(:value) ? ractor.value : ractor.take
    RUBY
    assert_equal "true lost Ractor 5", out
  end

  # The companion waits for a command that takes long, and lets the program make its Ractor all the same.
  def test_the_first_ractor_beside_a_command
    skip "this Ruby has no Ractors, or bears them" unless REFUSES_RACTORS

    out = output_of(<<~'RUBY', options: ["-W0"])
      Memprof.start
      looking = Thread.new { Lancet::Watch.run("stack", %w[--for 10s --every 100ms]) }
      children = -> { File.read("/proc/#{Lancet::Companion.current.pid}/task/#{Lancet::Companion.current.pid}/children") }
      Thread.pass while children.call.empty?
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      ractor = Ractor.new { Ractor.receive }
      print Process.clock_gettime(Process::CLOCK_MONOTONIC) - began < 4, " "
      ractor.send(5)
      print ractor.respond_to?(:value) ? ractor.value : ractor.take
      looking.kill
    RUBY
    assert_equal "true 5", out
  end

  def test_descriptors_are_not_handed_on
    File.open("/dev/null") do |file|
      file.close_on_exec = false
      Lancet::Companion.current.abandon
      pid = companion_pid
      open = Dir.children("/proc/#{pid}/fd").map { |fd| File.readlink("/proc/#{pid}/fd/#{fd}") rescue nil }
      # One socket, which it reads and writes by several descriptors.
      assert_equal 1, open.grep(/\Asocket:/).uniq.size, open.inspect
      refute_includes Dir.children("/proc/#{pid}/fd"), file.fileno.to_s if file.fileno > 10
    end
  end

  # Without arguments, and in a folder whose name a shell would take apart.
  def test_the_command_of_the_gem
    Dir.mktmpdir do |folder|
      FileUtils.mkdir_p("#{folder}/a b/exe")
      FileUtils.cp(File.expand_path("../exe/lancet", __dir__), "#{folder}/a b/exe/lancet")
      FileUtils.mkdir_p("#{folder}/a b/lib/lancet")
      %w[program error].each { |name| FileUtils.cp(File.expand_path("../lib/lancet/#{name}.rb", __dir__), "#{folder}/a b/lib/lancet") }
      program = "#{folder}/a b/lancet"
      File.write(program, "#!/bin/sh\necho \"$# $0\"\n")
      File.chmod(0o755, program)
      out, = ruby("#{folder}/a b/exe/lancet", env: { "LANCET_BIN" => program })
      assert_equal "0 #{program}\n", out
    end
  end

  def test_no_program
    out = output_of("begin; Memprof.start; rescue Lancet::Error => e; print e.message; end", env: { "LANCET_BIN" => "/no/lancet" })
    assert_match(%r{there is no program /no/lancet: install}, out)
  end

  def test_a_program_of_another_kind
    script = "begin; Memprof.start; rescue Lancet::Error => e; print e.message; end"
    Tempfile.create("lancet") do |file|
      file.write("\x7fELF of another machine")
      file.close
      File.chmod(0o755, file.path)
      assert_match(/has not answered.*another machine/, output_of(script, env: { "LANCET_BIN" => file.path }))
    end
    assert_match(%r{/bin/true has not answered}, output_of(script, env: { "LANCET_BIN" => "/bin/true" }))
  end

  # A filter for system calls as that of a container in which nobody may trace (ptrace, process_vm_readv and _writev answer EPERM).
  WITHOUT_PTRACE = <<~'RUBY'
    code = [[0x20, 0, 0, 0], [0x15, 3, 0, 101], [0x15, 2, 0, 310], [0x15, 1, 0, 311], [0x06, 0, 0, 0x7fff0000], [0x06, 0, 0, 0x00050001]]
    code = code.map { |instruction| instruction.pack("SCCL") }.join
    program = [6].pack("Sx6") + [code].pack("P")
    syscall(157, 38, 1, 0, 0, 0)
    syscall(317, 1, 0, [program].pack("P").unpack1("J"))
  RUBY

  def test_where_nobody_may_trace
    out = output_of(<<~RUBY, options: ["-W0"])
      #{WITHOUT_PTRACE}
      works = [-> { Memprof.start }, -> { Memprof.track { 1 } }, -> { Lancet.allocations { 1 } }, -> { Lancet.trace { 1 } }, -> { Lancet.calls("read") { 1 } },
               -> { Lancet.syscalls { 1 } }, -> { Lancet.heap("/tmp/never") }]
      works.each do |work|
        work.call
        puts "it was done"
      rescue Lancet::Error => e
        puts e.message
      end
      puts [1, 2].sum
    RUBY
    *said, sum = out.lines.map(&:chomp)
    assert_equal "3", sum
    assert_equal 7, said.size, out
    said.each { |line| assert_match(/cannot be opened|may not|ptrace/, line) }
  end

  # Neither the gem nor what it starts writes anything of its own.
  def test_a_read_only_image
    skip "mounts are root's" unless Process.uid.zero?
    script = "require 'lancet'; Memprof.track { $kept = 'abc'.dup }; print Lancet.calls('getppid') { Process.ppid }.size, Lancet.trace(calls: true) { Object.new }.created; " \
             "begin; File.write('/tmp/x', ''); rescue Errno::EROFS; print ' EROFS'; end"
    words = [RbConfig.ruby, *$LOAD_PATH.flat_map { |folder| ["-I", folder] }, "-e", script]
    # Of all that is mounted below, what is written to is /tmp alone.
    mount = 'mount -o remount,bind,ro / && mount --bind /tmp /tmp && mount -o remount,bind,ro /tmp && exec "$@"'
    out, err, status = Open3.capture3("unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh", *words)
    skip err if err.include?("unshare") || err.include?("mount:")
    assert_predicate status, :success?, err
    assert_equal "11 EROFS", out
    assert_match(/ 2 -e:1:String$/, err)
  rescue Errno::ENOENT => e
    skip e.message
  end

  def test_the_versions_are_the_same
    assert_equal "lancet #{Lancet::VERSION}", `#{Lancet::Program.path} --version`.strip
  end

  # Where Yama asks for it; where there is none, or it needs no permission, the kernel says so or takes it.
  def test_the_permission
    Lancet::Permission.prctl(Lancet::Permission::PR_SET_PTRACER, 0)
  rescue Errno::EINVAL
    refute File.exist?(Lancet::Permission::SCOPE)
  end
end
