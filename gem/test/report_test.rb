require_relative "test_helper"
require "lancet/report"
require "tmpdir"

# Reports of the whole program, at a signal and at its end.
class ReportTest < LancetTest
  def teardown
    trap(:URG, "DEFAULT")
    Memprof.stop
  end

  def read(path)
    Timeout.timeout(LIMIT) { sleep 0.01 until File.exist?(path) }
    JSON.parse(File.read(path))
  end

  def test_at_a_signal
    Memprof.start
    @kept = Array.new(7) { Object.new }
    line = __LINE__ - 1
    Dir.mktmpdir do |folder|
      Lancet::Report.on_signal(file: "#{folder}/%{pid}.json")
      2.times do
        path = "#{folder}/#{Process.pid}.json"
        Process.kill(:URG, Process.pid)
        report = read(path)
        row = report["objects"].find { |one| one.values_at("file", "line", "type") == [__FILE__, line, "Object"] }
        assert_equal 7, row["live"]
        assert_empty report["failed"]
        assert_operator report["gc"]["count"], :>, 0
        assert(report["stacks"].any? { |record| record["record"] == "stack" })
        assert_equal 0o600, File.stat(path).mode & 0o777
        File.delete(path)
        assert_empty Dir.children(folder)
      end
    end
  end

  def test_nothing_is_tracked
    Dir.mktmpdir do |folder|
      path = Lancet::Report.write(file: "#{folder}/report.json")
      assert_nil read(path)["objects"]
    end
  end

  # One that was cut off by a kill is replaced, and what stands there instead is not followed.
  def test_what_is_left_aside
    Dir.mktmpdir do |folder|
      other = "#{folder}/other"
      File.write(other, "mine")
      File.symlink(other, "#{folder}/report.json.IN_PROGRESS")
      Lancet::Report.write(file: "#{folder}/report.json")
      assert_equal "mine", File.read(other)
      assert_equal %w[other report.json], Dir.children(folder).sort
    end
    error = assert_raises(Lancet::Error) { Lancet::Report.write(file: "/no/such/folder/report") }
    assert_match(/no report can be written: No such file/, error.message)
  end

  def test_a_signal_that_the_program_traps
    traps = 0
    trap(:URG) { traps += 1 }
    error = assert_raises(Lancet::Error) { Lancet::Report.on_signal }
    assert_match(/traps SIGURG itself/, error.message)
    Process.kill(:URG, Process.pid)
    Timeout.timeout(LIMIT) { Thread.pass while traps.zero? }
    %i[KILL VTALRM NONE].each do |signal|
      assert_match(/SIG#{signal} cannot be used/, assert_raises(Lancet::Error) { Lancet::Report.on_signal(signal) }.message)
    end
  end

  # A program that ends with its threads does not end by a report that cannot be written.
  def test_whatever_fails_is_said
    out = output_of(<<~'RUBY')
      require "lancet/report"
      Thread.abort_on_exception = true
      told = Queue.new
      log = Object.new
      log.define_singleton_method(:puts) { |line| told << line }
      Lancet::Report.on_signal(:URG, file: "report-%", log: log)
      Process.kill(:URG, $$)
      print told.pop
    RUBY
    assert_match(/\Alancet: /, out)
  end

  def test_set_twice
    Dir.mktmpdir do |folder|
      Lancet::Report.on_signal(file: "#{folder}/first")
      Lancet::Report.on_signal(file: "#{folder}/second")
      Process.kill(:URG, Process.pid)
      read("#{folder}/second")
      refute File.exist?("#{folder}/first")
    end
  end

  # Of the process that has asked, whatever ends it, and not of its children.
  def test_at_exit
    { "" => 0, "exit 3" => 3, "abort" => 1, "raise 'x'" => 1, "fork { }; Process.wait" => 0 }.each do |ending, code|
      Dir.mktmpdir do |folder|
        script = <<~RUBY
          require "lancet/report"
          Lancet::Report.at_exit(file: "#{folder}/%{pid}")
          $kept = Array.new(5) { Object.new }
          #{ending}
        RUBY
        _, err, ended = ruby(script: script)
        assert_equal code, ended, err
        files = Dir.children(folder)
        assert_equal 1, files.size, ending
        rows = JSON.parse(File.read("#{folder}/#{files.first}"))["objects"]
        assert_equal 5, rows.find { |row| row["type"] == "Object" }["live"], ending
      end
    end
  end
end
