require_relative "test_helper"
require "net/http"
require "socket"
require "tmpdir"

# A real server, and five clients of it.
module Served
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
    answer = Net::HTTP.start("127.0.0.1", port, read_timeout: LancetTest::LIMIT) { |http| http.get(path) }
    assert_equal "200", answer.code, answer.body
    answer.body
  end

  # What the block answers for each path, five at the same time.
  def at_once(paths)
    todo = Queue.new
    paths.each { |path| todo << path }
    Array.new(5) { Thread.new { Array.new(paths.size / 5) { yield todo.pop } } }.flat_map(&:value)
  end
end
