require_relative "served"

# A server that forks its workers after it has loaded the application, in which the middleware has traced already: each worker has a companion and accounts
# of its own.
class WorkersTest < LancetTest
  include Served

  APPLICATION = <<~'RUBY'
    require "lancet"
    require "lancet/rack"

    use Lancet::Rack, sample: 1, calls: true, log: nil, file: ENV.fetch("TRACES")
    Lancet.trace(calls: true) { Object.new }.calls

    run(lambda do |env|
      _, way, number = env["PATH_INFO"].split("/")
      Integer(number).times do
        Object.new
        Thread.pass
      end
      answer = way == "companion" ? Lancet::Companion.current.pid : Process.pid
      [200, { "content-type" => "text/plain" }, [answer.to_s]]
    end)
  RUBY

  def setup
    require "puma"
  rescue LoadError => e
    skip e.message
  end

  def traces_in(file)
    File.exist?(file) ? File.readlines(file).map { |line| JSON.parse(line) } : []
  end

  # Objects of the application itself.
  def made(told)
    told["tracers"]["objects"]["lines"].select { |line| line["file"].end_with?("config.ru") && line["type"] == "Object" }.sum { |line| line["count"] }
  end

  def test_workers
    served(APPLICATION, "-t", "5:5", "-w", "2", "--preload") do |port, traces|
      workers = []
      Timeout.timeout(LIMIT) { workers |= at_once(["/work/1"] * 5) { |path| answer_of(port, path) } until workers.size == 2 }
      warm = traces_in(traces).size
      paths = (1..100).map { |number| "/work/#{number}" }.shuffle
      assert_empty at_once(paths) { |path| answer_of(port, path) } - workers
      told = traces_in(traces).drop(warm)
      assert_equal paths.sort, (told.map { |one| one["request"]["path"] }.sort)
      told.each do |one|
        assert_empty one["lost"]
        assert_equal one["request"]["path"][/\d+/].to_i, made(one), one.inspect
      end
    end
  end

  # Every request is served, whether or not it could be traced; those that come later are traced again.
  def test_companions_that_are_killed
    served(APPLICATION, "-t", "5:5", "-w", "2", "--preload") do |port, traces|
      killed = []
      3.times do
        # Which worker serves a request is not known. One that has served none since its companion was killed does not know that yet.
        companion = Timeout.timeout(LIMIT) do
          loop do
            at_once(["/work/20"] * 20) { |path| answer_of(port, path) }
            told = Integer(answer_of(port, "/companion/0"))
            break told unless killed.include?(told)
          end
        end
        Process.kill(:KILL, companion)
        killed << companion
      end
      at_once(["/work/20"] * 40) { |path| answer_of(port, path) }
      last = traces_in(traces).last(10)
      assert_equal [[20, []]] * 10, (last.map { |one| [made(one), one["lost"]] })
    end
  end
end
