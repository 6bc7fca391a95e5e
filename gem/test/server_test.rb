require_relative "served"

# Sinatra on puma with five threads, sequel and mysql2, and a real MariaDB, whose socket is in LANCET_DATABASE: each request's account is
# its own, and the database has counted the same queries.
class ServerTest < LancetTest
  include Served

  APPLICATION = <<~RUBY
    require "sinatra/base"
    require "sequel"
    require "lancet/rack"
    require #{Served::MEASURED.dump}

    DB = Sequel.connect(adapter: "mysql2", socket: ENV.fetch("LANCET_DATABASE"), user: "root", max_connections: 5)

    class App < Sinatra::Base
      disable :logging, :protection
      set :environment, :production
      use Lancet::Rack, sample: 1, calls: true, log: nil, file: ENV.fetch("TRACES")
      use Measured

      get "/work/:queries" do
        queries = Integer(params[:queries])
        queries.times { DB.fetch("SELECT SLEEP(0.03) AS slept").all }
        (queries * 10).times { Object.new }
        "done"
      end

      get "/collect" do
        kept = Array.new(100_000) { "" + "kept" }
        5.times { GC.start }
        kept.size.to_s
      end
    end
    run App
  RUBY

  def setup
    skip "there is no database (cargo test -p lancet --test inside starts one)" unless ENV["LANCET_DATABASE"]
    %w[sinatra/base sequel mysql2 puma].each { |name| require name }
  rescue LoadError => e
    skip e.message
  end

  def client
    @client ||= Mysql2::Client.new(socket: ENV.fetch("LANCET_DATABASE"), username: "root")
  end

  def selects
    client.query("SHOW GLOBAL STATUS LIKE 'Com_select'").first["Value"].to_i
  end

  def test_requests_at_once
    served(APPLICATION, "-t", "5:5") do |port, traces|
      # Hooks, connections, accounts of five threads.
      2.times { at_once(["/work/4"] * 5) { |path| answer_of(port, path) } }
      warm = told(traces, 0).size
      before = selects
      paths = Array.new(40) { |number| "/work/#{number % 8 + 1}" }.shuffle
      at_once(paths) { |path| answer_of(port, path) }
      made = selects - before
      accounts = told(traces, warm)
      assert_equal paths.sort, (accounts.map { |one| one["request"]["path"] }.sort)
      assert_equal made, (accounts.sum { |one| one["tracers"]["mysql"]["calls"] })
      accounts.each { |one| hold(one) }
      assert_asking(told("#{traces}.measured", warm), accounts)
    end
  end

  def test_one_after_the_other
    served(APPLICATION, "-t", "5:5") do |port, traces|
      2.times { %w[/work/2 /collect].each { |path| answer_of(port, path) } }
      before = selects
      assert_equal 9, (answer_of(port, "/work/9") && assert_last_is_as_measured(traces)["queries"])
      assert_equal 9, selects - before
      %w[/work/2 /collect].each { |path| assert_time(port, path, traces) }
      answer_of(port, "/collect")
      assert_operator assert_last_is_as_measured(traces)["collections"], :>=, 5
      # Each of its lines has run before.
      2.times { response_of(port, "/work/9", "X-Objects" => "1") }
      assert_operator assert_last_is_as_measured(traces)["lines"].size, :>, 20
    end
  end

  # Queries take as long as the program has measured around them. It has measured, too, how long a thread waited for the VM's lock there, which
  # may be long beside four others: a quarter of the requests at least did not, and is within 1 %; none took longer than was measured.
  def assert_asking(measured, accounts)
    (theirs, ours) = [
      measured.group_by { |one| one["path"] }.transform_values { |all| all.map { |one| one["asking"] }.sort },
      accounts.group_by { |one| one["request"]["path"] }.transform_values { |all| all.map { |one| one["tracers"]["mysql"]["time"] }.sort },
    ]
    more = theirs.flat_map { |path, times| times.zip(ours.fetch(path)).map { |asking, time| asking / time - 1 } }.sort
    assert_operator more.first, :>=, -0.001, more.inspect
    assert_operator more[more.size / 4], :<=, 0.01, more.inspect
  end

  # One request's own queries and objects, whatever the others do.
  def hold(told)
    queries = Integer(told["request"]["path"][/\d+/])
    tracers = told["tracers"]
    assert_equal queries, tracers["mysql"]["calls"], told.inspect
    assert_operator tracers["mysql"]["time"], :>=, queries * 0.03
    assert_operator told["time"], :>=, tracers["mysql"]["time"]
    objects = tracers["objects"]["lines"].select { |line| line["file"].end_with?("config.ru") && line["type"] == "Object" }
    assert_equal queries * 10, objects.sum { |line| line["count"] }
    # A query is sent and its answer read.
    assert_operator tracers["read"]["calls"], :>=, queries
    assert_operator tracers["write"]["calls"], :>=, queries
    assert_empty told["lost"]
  end
end
