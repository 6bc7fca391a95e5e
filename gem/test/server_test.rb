require_relative "served"

# Sinatra on puma with five threads, sequel and mysql2, and a real MariaDB, whose socket is in LANCET_DATABASE: each request's account is
# its own, and the database has counted the same queries.
class ServerTest < LancetTest
  include Served

  APPLICATION = <<~'RUBY'
    require "sinatra/base"
    require "sequel"
    require "lancet/rack"

    # What the program itself sees of its queries, on this thread.
    module Measured
      def query(*)
        began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        super
      ensure
        Thread.current[:spent] = Thread.current[:spent].to_f + Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
      end
    end

    DB = Sequel.connect(adapter: "mysql2", socket: ENV.fetch("LANCET_DATABASE"), user: "root", max_connections: 5)
    Mysql2::Client.prepend(Measured)

    class App < Sinatra::Base
      disable :logging, :protection
      set :environment, :production
      use Lancet::Rack, sample: 1, calls: true, log: nil, file: ENV.fetch("TRACES")

      get "/work/:queries" do
        Thread.current[:spent] = 0.0
        queries = Integer(params[:queries])
        queries.times { DB.fetch("SELECT SLEEP(0.03) AS slept").all }
        (queries * 10).times { Object.new }
        Thread.current[:spent].to_s
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

  # What the program has measured of each request's queries, in seconds.
  def get(port, path)
    Float(answer_of(port, path))
  end

  def test_requests_at_once
    served(APPLICATION, "-t", "5:5") do |port, traces|
      # Hooks, connections, accounts of five threads.
      2.times { at_once(["/work/4"] * 5) { |path| get(port, path) } }
      warm = File.readlines(traces).size
      before = selects
      paths = Array.new(40) { |number| "/work/#{number % 8 + 1}" }.shuffle
      seen = at_once(paths) { |path| get(port, path) }
      made = selects - before
      told = File.readlines(traces).drop(warm).map { |line| JSON.parse(line) }
      assert_equal paths.sort, (told.map { |one| one["request"]["path"] }.sort)
      assert_equal made, (told.sum { |one| one["tracers"]["mysql"]["calls"] })
      told.each { |one| hold(one) }
      assert_in_delta seen.sum, (told.sum { |one| one["tracers"]["mysql"]["time"] }), seen.sum * 0.01
    end
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
