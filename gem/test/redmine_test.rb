require_relative "served"

# Redmine on puma with five threads: each request's account holds what the application itself sees of it and what the database has counted.
# The folder that fixtures/ruby/redmine/prepare has made is in REDMINE, the database's socket in LANCET_DATABASE.
class RedmineTest < LancetTest
  include Served

  APPLICATION = File.expand_path("../../fixtures/ruby/redmine/config.ru", __dir__)
  PATHS = %w[/issues /issues/7 /projects/project-3/issues /projects /search?q=issue].freeze

  def setup
    skip "there is no Redmine (make soak makes one)" unless ENV["REDMINE"]
    require "mysql2"
  end

  # What others have asked of the database.
  def queries
    @client ||= Mysql2::Client.new(socket: ENV.fetch("LANCET_DATABASE"), username: "root")
    @asked = @asked.to_i + 1
    # Pings, by which a connection is looked at before it is used again, are not among these.
    @client.query("SHOW GLOBAL STATUS LIKE 'Questions'").first["Value"].to_i - @asked
  end

  def test_redmine
    # Its own file is the second argument, so that what it requires lies beside it.
    served("instance_eval(File.read(#{APPLICATION.dump}), #{APPLICATION.dump})", "-t", "5:5") do |port, traces|
      # Code is loaded, views are compiled, schemas are read.
      3.times { at_once(PATHS) { |path| answer_of(port, path) } }
      at_once_under_load(port, traces)
      alone(port, traces)
    end
  end

  def at_once_under_load(port, traces)
    warm = File.readlines(traces).size
    before = queries
    at_once((PATHS * 8).shuffle) { |path| answer_of(port, path) }
    made = queries - before
    accounts = told(traces, warm)
    accounts.each { |one| assert_empty one["lost"] }
    seen = told("#{traces}.measured", warm).map { |one| [one["path"], one["queries"]] }
    assert_equal 40, seen.size
    assert_equal seen.sort, accounts.map { |one| [one["request"]["path"], one["tracers"]["mysql"]["calls"]] }.sort
    assert_equal made, seen.sum(&:last)
    accounts.each { |one| assert_operator one["time"], :>=, one["tracers"]["mysql"]["time"] }
  end

  def alone(port, traces)
    %w[/issues/7 /projects/project-3/issues].each do |path|
      # Its lines have run before on the thread that serves it, whichever that is.
      response_of(port, path)
      assert_last_is_as_measured(traces)
      assert_time(port, path, traces)
      response_of(port, path, "X-Objects" => "1")
      assert_operator assert_last_is_as_measured(traces, hidden: 0.001)["lines"].sum(&:last), :>, 1_000
    end
  end
end
