require_relative "test_helper"
require "lancet/page"
require "lancet/sidekiq"
require "tmpdir"

# The page of requests and jobs: what its data says, and who is shown it.
class PageTest < LancetTest
  SECRET = "a secret of the application"
  ANSWER = [200, { "content-type" => "text/plain" }, ["served"]].freeze

  def env(path = "/cart", **more)
    { "REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => path, **more }
  end

  def serve(_)
    4.times { Object.new }
    ANSWER
  end

  # The page of an application that is asked for each of these paths first.
  def page_of(paths, served)
    paths.each { |path| served.call(env(path)) }
    status, headers, body = served.call(env("/lancet"))
    assert_equal [200, "no-store"], [status, headers["cache-control"]]
    assert_match(/default-src 'none'/, headers["content-security-policy"])
    body.join
  end

  # The data of one request, of which the application does this.
  def request(folder: nil, **options, &work)
    served = Lancet::Page.new(->(env) { work.call(env) && ANSWER }, folder: folder, root: __dir__, **options)
    data_of(page_of(["/orders/17"], served))["requests"].fetch(0)
  end

  # The rows of a group: what they are about, their line, how many calls.
  def rows(request, group)
    request["details"]["rows"].select { |row| row["group"] == group }
  end

  def test_the_last_requests
    served = Lancet::Page.new(method(:serve), calls: false)
    assert_empty data_of(page_of([], served))["requests"]
    data = data_of(page_of(Array.new(60) { |number| "/pages/#{number}" }, served))
    assert_equal Array.new(50) { |number| "GET /pages/#{59 - number}" }, (data["requests"].map { |one| one["title"] })
    last = data["requests"].first
    assert_equal 4, last["objects"]["created"]
    assert_equal [[__FILE__, method(:serve).source_location.last + 1, "Object", 4]], (last["objects"]["lines"].map(&:values))
    assert_nil last["details"]
    # With the sixty that were before it in the hundred of its route.
    assert_equal ["GET /pages/:id", 59], [last["route"], last["before"]["count"]]
    assert_equal [["GET /pages/:id", 60]], (data["routes"].map { |one| one.values_at("route", "count") })
    assert_operator last["before"]["wall"][0], :<=, last["before"]["wall"][1]
  end

  def test_where_the_time_of_a_request_went
    reader, writer = IO.pipe
    one = request do
      sleep 0.05
      Thread.new { sleep(0.05) && writer.syswrite("1") }
      reader.sysread(1)
    end
    assert_empty one["lost"]
    line = __LINE__ - 5
    slept = rows(one, "sleep").find { |row| row["path"] == __FILE__ && row["line"] == line }
    assert_equal [1, "sleep"], slept.values_at("calls", "about")
    assert_operator slept["outer_ns"], :>=, 50_000_000
    # What it reads waits first, for the same descriptor.
    waits = %w[poll read].flat_map { |group| rows(one, group) }.select { |row| row["line"] == line + 2 }
    assert_operator waits.sum { |row| row["outer_ns"] }, :>=, 30_000_000, one.inspect
    assert(waits.any? { |row| row["about"].to_s.start_with?("pipe") }, waits.inspect)
    # Nothing is told twice, and nearly all is told.
    told = one["details"]["rows"].sum { |row| row["outer_ns"] }
    assert_includes 0.08..one["wall"], told / 1e9
    assert_includes (one["wall"] * 0.8)..one["wall"], one["details"]["within_ns"] / 1e9
    pieces = one["details"]["pieces"]
    assert_equal pieces.map { |piece| piece["at_ns"] }.sort, (pieces.map { |piece| piece["at_ns"] })
    pieces.each_cons(2) { |first, second| assert_operator first["at_ns"] + first["time_ns"], :<=, second["at_ns"] }
    assert_operator one["cpu"], :<, one["wall"] - 0.08
  end

  def test_statements_by_shape_and_line
    begin
      require "sqlite3"
    rescue LoadError
      skip "sqlite3 is not installed"
    end
    db = SQLite3::Database.new(":memory:")
    db.execute("CREATE TABLE users (id INTEGER, name TEXT)")
    one = request do
      db.execute("INSERT INTO users VALUES (1, 'a'), (2, 'b')")
      7.times { |number| db.execute("SELECT name FROM users WHERE id = #{number}") }
      prepared = db.prepare("SELECT id FROM users WHERE name = ?")
      2.times { prepared.execute("a").to_a }
    end
    assert_empty one["lost"]
    line = __LINE__ - 6
    found = rows(one, "sqlite").select { |row| row["calls"].positive? && row["path"] == __FILE__ }
    found = found.map { |row| row.values_at("about", "line", "calls") }
    assert_includes found, ["SELECT name FROM users WHERE id = ?", line + 1, 7]
    assert_includes found, ["INSERT INTO users VALUES (…)", line, 1]
    assert_includes found, ["SELECT id FROM users WHERE name = ?", line + 3, 2]
    assert_equal(10, one["sums"].find { |sum| sum["group"] == "sqlite" }["calls"])
  end

  def test_paths_and_files_of_other_encodings
    served = Lancet::Page.new(->(_) { eval("String.new", binding, "/srv/ärger.rb", 3) && ANSWER }, path: "/läncet", calls: false)
    ["/caf\xC3\xA9".b, "/\xFF".b, "/cart"].each { |path| served.call(env(path)) }
    body = served.call(env("/läncet".b))[2].join
    assert_predicate body, :valid_encoding?
    data = data_of(body)
    assert_equal ["GET /cart", "GET /?", "GET /café"], (data["requests"].map { |one| one["title"] })
    assert_includes data["requests"][0]["objects"]["lines"].map { |line| line["file"] }, "/srv/ärger.rb"
  end

  def test_what_a_request_brings_is_not_written_as_html
    body = page_of(["/</script><b>\xff"], Lancet::Page.new(method(:serve), calls: false))
    refute_includes body, "/</script><b>"
    assert_equal "GET /</script><b>?", data_of(body)["requests"][0]["title"]
  end

  def test_why_it_is_empty
    out = output_of(<<~'RUBY', env: { "LANCET_BIN" => "/no/lancet" })
      require "lancet/page"
      served = Lancet::Page.new(->(_) { [200, {}, []] })
      ask = ->(path) { served.call("REQUEST_METHOD" => "GET", "PATH_INFO" => path)[2].join }
      ask.call("/")
      print ask.call("/lancet")
    RUBY
    assert_match(%r{<p>there is no program /no/lancet}, out)
  end

  # Whether an answer is the page.
  def shown?(served, value, query = "")
    served.call(env("/lancet", "QUERY_STRING" => query, "HTTP_X_LANCET_TRACE" => value))[2].join.include?("id=\"data\"")
  end

  def test_a_page_for_those_who_sign
    served = Lancet::Page.new(method(:serve), signed: true, secret: SECRET, calls: false)
    sign = ->(target) { Lancet::Rack.signature(SECRET, "GET", target) }
    value = sign["/lancet"]
    [nil, "", "1:2", sign["/cart"]].each { |other| refute shown?(served, other) }
    refute shown?(served, value, "all=1")
    assert shown?(served, value)
    # It is good once.
    refute shown?(served, value)
    served.call(env("/cart"))
    served.call(env("/orders", "HTTP_X_LANCET_TRACE" => sign["/orders"]))
    body = served.call(env("/lancet", "HTTP_X_LANCET_TRACE" => sign["/lancet"]))[2].join
    assert_equal ["GET /orders"], (data_of(body)["requests"].map { |one| one["title"] })
    assert_raises(ArgumentError) { Lancet::Page.new(method(:serve), signed: true) }
  end

  # What a server of jobs has written is on the page of the application.
  def test_jobs
    Dir.mktmpdir do |place|
      folder = File.join(place, "tmp/lancet")
      output_of(<<~RUBY)
        require "lancet/sidekiq"
        jobs = Lancet::Sidekiq.new({ sample: 1, calls: false, page: #{folder.inspect} })
        60.times { |number| jobs.call(nil, { "class" => "Mail", "jid" => number.to_s, "args" => ["secret"] }, "default") { Object.new } }
      RUBY
      assert_equal [50, 0o600, 0o700], [Dir.children(folder).size, File.stat(Dir["#{folder}/*"].first).mode & 0o777, File.stat(folder).mode & 0o777]
      File.write(File.join(folder, "1-2-3.json"), "{")
      File.symlink("/etc/passwd", File.join(folder, "99999999999999999999-2-3.json"))
      served = Lancet::Page.new(method(:serve), folder: folder, calls: false)
      data = data_of(page_of(["/cart"], served))
      assert_equal [false, *[true] * 49], (data["requests"].map { |one| one["job"] })
      assert_equal ["Mail on default", "Mail"], data["requests"][1].values_at("title", "route")
      refute_includes JSON.generate(data), "secret"
    end
  end
end
