require_relative "test_helper"
require "net/http"
require "socket"
require "tmpdir"

# A real server, and five clients of it.
module Served
  # Middleware that measures what the account of a request is compared with.
  MEASURED = File.expand_path("measured.rb", __dir__)
  # Files of the server and of what it waits with, in which its own threads make objects whenever a client comes or goes.
  SERVER = %r{/(puma|nio4r)[-/]|/socket\.rb\z}

  private

  # Runs puma with this configuration of Rack and these words within the block, which is given its port and the file that TRACES names for it.
  def served(application, *words)
    Dir.mktmpdir do |folder|
      File.write("#{folder}/config.ru", application)
      port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
      words = [RbConfig.ruby, *$LOAD_PATH.flat_map { |path| ["-I", path] }, "-S", "puma", "-q", *words, "-b", "tcp://127.0.0.1:#{port}"]
      server = Process.spawn({ "TRACES" => "#{folder}/traces" }, *words, "#{folder}/config.ru", chdir: folder, out: "#{folder}/log", err: %i[child out])
      begin
        Timeout.timeout(LancetTest::LIMIT) { sleep 0.05 until listens?(port, server, folder) }
        yield port, "#{folder}/traces"
      ensure
        Process.kill(:TERM, server)
        Process.wait(server)
      end
    end
  end

  def listens?(port, server, folder)
    flunk File.read("#{folder}/log") if Process.wait(server, Process::WNOHANG)
    TCPSocket.open("127.0.0.1", port, &:close) || true
  rescue SystemCallError
    false
  end

  def answer_of(port, path)
    response_of(port, path).body
  end

  def response_of(port, path, headers = {})
    answer = Net::HTTP.start("127.0.0.1", port, read_timeout: LancetTest::LIMIT) { |http| http.get(path, headers) }
    assert_equal "200", answer.code, answer.body
    answer
  end

  # Lines of JSON of a file after so many.
  def told(file, after)
    File.readlines(file).drop(after).map { |line| JSON.parse(line) }
  end

  # The account of the last request beside what the program has seen of it (MEASURED): the wall clock, collections of garbage, queries, and objects by line and type.
  def assert_last_is_as_measured(traces, hidden: 0)
    ours = told(traces, 0).last
    theirs = told("#{traces}.measured", 0).last
    assert_equal theirs["path"], ours["request"]["path"]
    assert_empty ours["lost"]
    # The kernel may give the processor to others between the two looks at the clock: `assert_time` tells how near they are.
    assert_operator ours["time"], :>=, theirs["time"]
    tracers = ours["tracers"]
    assert_equal theirs["queries"], tracers.fetch("mysql", { "calls" => 0 })["calls"]
    assert_collections(theirs, tracers["gc"])
    assert_same_lines(theirs["lines"], tracers["objects"]["lines"], hidden) if theirs["lines"]
    theirs
  end

  # What GC.stat says. One may begin between the two looks at it, where the middleware itself makes an object.
  def assert_collections(theirs, ours)
    return assert_equal(theirs["collections"] + 1, ours["calls"]) unless theirs["collections"] == ours["calls"]

    # GC.stat knows whole milliseconds.
    theirs["collecting"] ? assert_in_delta(theirs["collecting"], ours["time"] * 1e3, 1.5) : assert_nil(ours["time"])
  end

  # Of several requests at least one has taken the time that the program has measured, within 1 %, and at least one had as many collections.
  def assert_time(port, path, traces)
    more = []
    # On a busy machine the thread may wait for a processor between the two measurements of each.
    until more.size >= 5 && more.map(&:first).min <= 0.01 || more.size == 50
      answer_of(port, path)
      ours, theirs = [traces, "#{traces}.measured"].map { |file| told(file, 0).last }
      more << [ours["time"] / theirs["time"] - 1, ours["tracers"]["gc"]["calls"] - theirs["collections"]]
    end
    assert_includes 0..0.01, more.map(&:first).min
    assert_equal 0, more.map(&:last).min
  end

  # So large a part of all may be hidden by Ruby later on (the text of a Symbol), when it was counted already.
  def assert_same_lines(theirs, ours, hidden)
    theirs = theirs.to_h { |path, line, type, count| [[path, line, anonymous(type)], count] }
    # The line of JSON that says so is made within the request, too.
    ours = ours.reject { |line| line["file"] == MEASURED || line["file"].end_with?("/json/common.rb") }
    theirs.reject! { |(path, _), _| path.end_with?("/json/common.rb") }
    # Ruby counts what other threads make as well: the server's, in files that this one has not been in.
    files = ours.map { |line| line["file"] }.uniq
    others, theirs = theirs.partition { |(path, _), _| !files.include?(path) && !path.start_with?("<internal:") }.map(&:to_h)
    others.reject! { |(path, _), _| path.match?(SERVER) }
    assert_operator others.values.sum, :<=, 20, others.inspect
    more = ours.to_h { |line| [[line["file"], line["line"], anonymous(line["type"])], line["count"]] }
    theirs.each { |place, count| more[place] = more.fetch(place, 0) - count unless place.first.start_with?("<internal:") }
    more.reject! { |_, count| count.zero? }
    # Of what the VM's own Ruby code makes (Kernel#clone) the line that has called it is told, and Ruby tells that of the VM's.
    internal = theirs.select { |(path, _), _| path.start_with?("<internal:") }
    by_type = ->(rows) { rows.each_with_object(Hash.new(0)) { |((_, _, type), count), sums| sums[type] += count } }
    (wanted, found) = [internal, more].map(&by_type)
    late = (wanted.keys | found.keys).to_h { |type| [type, found[type] - wanted[type]] }
    assert_operator late.values.min || 0, :>=, 0, late.inspect
    assert_operator late.values.sum, :<=, theirs.values.sum * hidden, late.inspect
    assert_operator more.values.min || 0, :>=, 0, more.inspect
  end

  # What the block answers for each path, five at the same time.
  def at_once(paths)
    todo = Queue.new
    paths.each { |path| todo << path }
    Array.new(5) { Thread.new { Array.new(paths.size / 5) { yield todo.pop } } }.flat_map(&:value)
  end
end
