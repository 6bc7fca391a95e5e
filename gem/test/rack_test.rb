require_relative "test_helper"
require "lancet/page"
require "lancet/sidekiq"

# Middleware: which requests are traced, and where they are told.
class RackTest < LancetTest
  SECRET = "a secret of the application"
  ANSWER = [200, { "content-type" => "text/plain" }, ["served"]].freeze

  # Ruby makes objects where a line runs for the first time, as where it looks at a constant.
  def setup
    serve(nil)
  end

  def env(path = "/cart", **more)
    { "REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => path, **more }
  end

  def app(told = [], **options)
    Lancet::Rack.new(method(:serve), log: nil, **options) { |trace| told << trace }
  end

  def serve(_)
    4.times { Object.new }
    ANSWER
  end

  def test_every_request
    told = []
    served = app(told, sample: 1)
    3.times { assert_equal 200, served.call(env).first }
    assert_equal [{ method: "GET", path: "/cart" }] * 3, told.map(&:request)
    lines = told.last.objects.map { |row| [row.path, row.line, row.type, row.born] }
    assert_equal [[__FILE__, method(:serve).source_location.last + 1, "Object", 4]], lines
  end

  def test_none_and_some
    told = []
    served = app(told, sample: 0)
    50.times { served.call(env) }
    assert_empty told
    srand(7)
    served = app(told, sample: 0.5)
    200.times { served.call(env) }
    # 1 in 10^9 of all beginnings of a random row has more or fewer.
    assert_includes 55..145, told.size
    assert_raises(ArgumentError) { app(sample: 2) }
  end

  def test_slow_ones
    told = []
    slow = ->(env) { sleep(env["slow"] ? 0.06 : 0) && [200, {}, []] }
    served = Lancet::Rack.new(slow, sample: 1, threshold: 0.05, log: nil) { |trace| told << trace }
    [nil, true, nil].each { |is_slow| served.call(env("/#{is_slow}", "slow" => is_slow)) }
    assert_equal(["/true"], told.map { |trace| trace.request[:path] })
  end

  def test_one_that_is_asked_for
    told = []
    served = app(told, sample: 0, threshold: 60, secret: SECRET)
    value = Lancet::Rack.signature(SECRET, "GET", "/cart")
    _, headers, = served.call(env("HTTP_X_LANCET_TRACE" => value))
    assert_match(/\A\d+\.\d ms, \d+\.\d ms CPU, 4 objects\z/, headers["x-lancet-trace"])
    assert_equal 1, told.size
  end

  # A server leaves the bytes of a path as they came, and an application may set a SCRIPT_NAME of another encoding.
  def test_paths_of_other_encodings
    told = []
    served = app(told, sample: 1, secret: SECRET)
    mixed = env("/caf\xC3\xA9".b, "SCRIPT_NAME" => "/ü", "HTTP_X_LANCET_TRACE" => "1:2")
    [mixed, env("/\xFF".b), env("/\xFF"), env(nil), env("/ü".encode(Encoding::UTF_16LE))].each do |request|
      assert_equal ANSWER, served.call(request)
    end
    assert_equal ["/ücafé".sub("üc", "ü/c"), "/?", "/?", ""], told.first(4).map { |trace| trace.request[:path] }
    value = Lancet::Rack.signature(SECRET, "GET", "/\xFF".b)
    assert served.call(env("/\xFF".b, "HTTP_X_LANCET_TRACE" => value))[1].key?("x-lancet-trace")
  end

  # What the middleware does itself fails for itself alone: the request is served, once.
  def test_an_environment_that_it_cannot_read
    calls = 0
    served = Lancet::Rack.new(->(_) { (calls += 1) && ANSWER }, sample: 1, secret: SECRET, log: nil)
    fails = Object.new
    fails.define_singleton_method(:to_s) { raise "no text" }
    fails.define_singleton_method(:b) { raise "no bytes" }
    assert_equal ANSWER, served.call(env(fails))
    assert_equal ANSWER, served.call(env("HTTP_X_LANCET_TRACE" => 7))
    assert_equal 2, calls
    frozen = [200, { "content-type" => "text/plain" }.freeze, []].freeze
    odd = Lancet::Rack.new(->(_) { [200, nil, []] }, sample: 1, secret: SECRET, log: nil)
    value = Lancet::Rack.signature(SECRET, "GET", "/cart")
    assert_equal [200, nil, []], odd.call(env("HTTP_X_LANCET_TRACE" => value))
    ice = Lancet::Rack.new(->(_) { frozen }, sample: 1, secret: SECRET, log: nil)
    value = Lancet::Rack.signature(SECRET, "GET", "/cart")
    assert ice.call(env("HTTP_X_LANCET_TRACE" => value))[1].key?("x-lancet-trace")
  end

  def test_signatures_that_are_none
    told = []
    served = app(told, sample: 0, secret: SECRET)
    good = Lancet::Rack.signature(SECRET, "GET", "/cart")
    old = Lancet::Rack.signature(SECRET, "GET", "/cart", seconds: -1)
    other = Lancet::Rack.signature("another", "GET", "/cart")
    bad = [old, other, good.sub(/.\z/) { |digit| digit == "0" ? "1" : "0" }, good.sub(/\A\d+/) { |time| Integer(time) + 1 }, "", ":", "x:y", "9" * 50, "\xff:\xff"]
    bad.each do |value|
      _, headers, = served.call(env("HTTP_X_LANCET_TRACE" => value))
      refute headers.key?("x-lancet-trace"), value
    end
    served.call(env("/other", "HTTP_X_LANCET_TRACE" => good))
    # Without a secret nobody is asked.
    app(told, sample: 0).call(env("HTTP_X_LANCET_TRACE" => good))
    assert_empty told
    assert_raises(ArgumentError) { app(secret: "") }
  end

  # Whether a request with this header is traced.
  def answered?(value, path = "/cart", query = "")
    app([], sample: 0, secret: SECRET).call(env(path, "QUERY_STRING" => query, "HTTP_X_LANCET_TRACE" => value))[1].key?("x-lancet-trace")
  end

  def test_a_signature_holds_for_one_query
    sign = ->(target) { Lancet::Rack.signature(SECRET, "GET", target) }
    assert answered?(sign["/cart?page=2"], "/cart", "page=2")
    refute answered?(sign["/cart?page=2"], "/cart", "page=3")
    refute answered?(sign["/cart?page=2"])
    refute answered?(sign["/cart"], "/cart", "page=2")
    # A path that has a question mark of its own (%3F) is another one than a path and a query.
    refute answered?(sign["/cart?page=2"], "/cart?page=2")
    refute answered?(sign["/ca?rt?page=2"], "/ca?rt", "page=2")
    assert answered?(sign["/cart?q=a?b"], "/cart", "q=a?b")
    assert answered?(sign["/"], "/", nil)
  end

  def test_a_signature_is_good_once
    # Two for one request, made in the same second.
    one, other = Array.new(2) { Lancet::Rack.signature(SECRET, "GET", "/cart") }
    assert answered?(one)
    refute answered?(one)
    assert answered?(other)
    # What was refused was not used.
    another = Lancet::Rack.signature(SECRET, "GET", "/cart")
    refute answered?(another, "/other")
    assert answered?(another)
  end

  # Of several workers of a server one takes it, and a folder that is not ours alone is not believed.
  def test_a_signature_is_good_once_for_all_processes
    first = ->(value) { Lancet::Signature.first?(SECRET, value, ["GET", "/cart", ""]) }
    take = ->(value) { IO.popen("-") { |child| child ? child.read : $stdout.syswrite(first[value]) && exit!(true) } }
    sign = -> { Lancet::Rack.signature(SECRET, "GET", "/cart") }
    value = sign.call
    assert_equal %w[true false false], Array.new(3) { take.call(value) }
    refute first[value]
    given_back = sign.call
    assert first[given_back]
    Lancet::Signature.give_back(given_back)
    assert_equal "true", take.call(given_back)
    folder = File.join(ENV.fetch("TMPDIR"), "lancet-signed-#{Process.euid}")
    assert_equal 0o700, File.stat(folder).mode & 0o777
    File.chmod(0o755, folder)
    assert_output(nil, /is not this user's alone/) { refute first[sign.call] }
    assert_silent { refute first[sign.call] }
    File.chmod(0o700, folder)
  end

  # What has no time left is removed; what cannot be, as what another process has removed first, makes no signature good twice.
  def test_old_signatures_are_tidied
    first = ->(value) { Lancet::Signature.first?(SECRET, value, ["GET", "/cart", ""]) }
    value = Lancet::Rack.signature(SECRET, "GET", "/cart")
    assert first[value]
    folder = File.join(ENV.fetch("TMPDIR"), "lancet-signed-#{Process.euid}")
    Dir.mkdir("#{folder}/1-aa")
    File.write("#{folder}/1-ab", "")
    other = IO.popen("-") { |child| child ? child.read : $stdout.syswrite(again(value)) && exit!(true) }
    assert_equal "false", other
    assert first[Lancet::Rack.signature(SECRET, "GET", "/cart")]
    Lancet::Taken.instance_variable_set(:@count, 0)
    assert first[Lancet::Rack.signature(SECRET, "GET", "/cart")]
    assert_path_exists "#{folder}/1-aa"
    refute_path_exists "#{folder}/1-ab"
  ensure
    FileUtils.rm_rf("#{folder}/1-aa") if folder
  end

  # As in a process that is new: it has used nothing, and tidies first.
  def again(value)
    Lancet::Signature.instance_variable_get(:@used).clear
    Lancet::Taken.instance_variable_set(:@count, 0)
    Lancet::Signature.first?(SECRET, value, ["GET", "/cart", ""])
  end

  # As puma hands a path over, and as servers that decode it do.
  def test_a_signature_is_of_the_path_decoded
    sign = ->(target) { Lancet::Rack.signature(SECRET, "GET", target) }
    assert answered?(sign["/my cart"], "/my%20cart")
    assert answered?(sign["/my cart"], "/my cart")
    assert answered?(sign["/café"], "/caf%C3%a9")
    assert answered?(sign["/100%"], "/100%25")
    assert answered?(sign["/100%"], "/100%")
    # What stands in the query stays as it was sent.
    assert answered?(sign["/cart?q=%20"], "/cart", "q=%20")
    refute answered?(sign["/cart?q= "], "/cart", "q=%20")
  end

  def test_a_signature_by_which_nothing_was_traced_is_good_once_more
    value = Lancet::Rack.signature(SECRET, "GET", "/cart")
    served = app(sample: 0, secret: SECRET)
    tracer = served.instance_variable_get(:@tracer)
    # As after one that could not begin.
    tracer.define_singleton_method(:rests?) { true }
    refute served.call(env("HTTP_X_LANCET_TRACE" => value))[1].key?("x-lancet-trace")
    assert answered?(value)
    refute answered?(value)
  end

  def test_options_that_are_none
    [{ calls: "mysql" }, { calls: ["nosuch"] }, { calls: 3 }, { secret: 5 }, { threshold: -1 }, { threshold: Float::NAN }, { sample: Float::NAN }].each do |options|
      assert_raises(ArgumentError, options.inspect) { app(**options) }
    end
    [true, false, nil, %i[mysql memory], ["read"]].each { |calls| app(calls: calls) }
  end

  # printf '99999999999:ab GET 5 /cart?page=2' | openssl dgst -sha256 -hmac 'a secret of the application'; the wheel has the same test.
  def test_a_signature_that_others_have_made
    assert answered?("99999999999:ab:59c55ddbaa76536b52b880fa1a3190d3c7af76ad07c75f8d69563c5cd88401fe", "/cart", "page=2")
  end

  def test_used_signatures_are_remembered_within_bounds
    signature = Lancet::Signature
    now = Time.now
    sign = ->(seconds) { signature.of(SECRET, "GET", "/cart", seconds: seconds, now: now) }
    first = ->(value, at = now) { signature.first?(SECRET, value, ["GET", "/cart", ""], now: at) }
    used = signature.instance_variable_get(:@used)
    used.clear
    kept = sign[60]
    assert first[kept]
    (signature::MOST_USED - 1).times { assert first[sign[10]] }
    refute first[sign[10]]
    # None was forgotten that is good for some time yet.
    refute first[kept]
    assert first[sign[60], now + 11]
    refute first[kept, now + 11]
    assert_equal 2, used.size
  ensure
    used&.clear
  end

  # What Rack 2 and 3 ask of headers, bodies and environments.
  def test_what_rack_itself_asks_for
    begin
      require "rack/lint"
      require "rack/mock"
    rescue LoadError
      skip "Rack is not installed"
    end
    inner = Rack::Lint.new(->(_) { [200, { "content-type" => "text/plain" }, ["served"]] })
    value = Lancet::Rack.signature(SECRET, "GET", "/cart?page=2")
    asks = Rack::MockRequest.new(Rack::Lint.new(Lancet::Rack.new(inner, sample: 0, secret: SECRET, log: nil)))
    assert_match(/ objects\z/, asks.get("/cart?page=2", "HTTP_X_LANCET_TRACE" => value)["x-lancet-trace"])
    page = Rack::MockRequest.new(Rack::Lint.new(Lancet::Page.new(inner, calls: false)))
    assert_equal ["served", 200], [page.get("/cart").body, page.get("/lancet").status]
  end

  def test_where_it_is_told
    log = StringIO.new
    logger = Struct.new(:lines) { define_method(:info) { |line| lines << line } }.new([])
    text = written do |file|
      app([], sample: 1, log: log, file: file).call(env)
      app([], sample: 1, log: logger).call(env)
    end
    assert_match(/\Alancet: GET \/cart .* 4 objects\n\z/, log.string)
    assert_equal 1, logger.lines.size
    told = JSON.parse(text)
    assert_equal [{ "method" => "GET", "path" => "/cart" }, 4], [told["request"], told.dig("tracers", "objects", "created")]
  end

  def test_an_application_that_raises
    told = []
    served = Lancet::Rack.new(->(_) { raise KeyError, "mine" }, sample: 1, log: nil) { |trace| told << trace }
    assert_raises(KeyError) { served.call(env) }
    assert_equal 1, told.size
  end

  # A report that cannot be written, or a block that raises, is said once; the request is served.
  def test_what_goes_wrong_is_not_the_requests
    log = StringIO.new
    served = app([], sample: 1, log: log, file: "/no/such/folder/file")
    2.times { assert_equal 200, served.call(env).first }
    assert_equal 1, log.string.scan("not traced: No such file").size
  end

  def test_what_cannot_be_opened_is_served
    out = output_of(<<~'RUBY', env: { "LANCET_BIN" => "/no/lancet" })
      require "lancet/rack"
      served = Lancet::Rack.new(->(_) { [200, {}, []] }, sample: 1, log: $stdout)
      3.times { print served.call("REQUEST_METHOD" => "GET", "PATH_INFO" => "/").first, "\n" }
    RUBY
    assert_match(%r{\Alancet: not traced: there is no program /no/lancet.*\n200\n200\n200\n\z}, out)
  end

  # What cannot be opened is not tried by each request, which would wait for it.
  def test_a_rest_after_what_cannot_be_opened
    Tempfile.create("lancet") do |file|
      file.write("#!/bin/sh\necho >>$0.attempts\n")
      file.chmod(0o755)
      file.close
      out = output_of(<<~'RUBY', env: { "LANCET_BIN" => file.path })
        require "lancet/rack"
        served = Lancet::Rack.new(->(_) { [200, {}, []] }, sample: 1, log: nil)
        attempts = -> { File.foreach("#{ENV["LANCET_BIN"]}.attempts").count }
        serve = -> { served.call("REQUEST_METHOD" => "GET", "PATH_INFO" => "/").first }
        clock = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
        began = clock.call
        50.times { serve.call }
        # One a second, however slow the machine is.
        puts attempts.call <= 1 + (clock.call - began)
        before = attempts.call
        serve.call until attempts.call > before
        puts served.refused
      RUBY
      assert_match(/\Atrue\n.*has not answered.*\n\z/, out)
    ensure
      File.delete("#{file.path}.attempts")
    end
  end

  # What the program raises in a thread while its trace is told, as a time limit does, is the program's.
  def test_a_time_limit_while_a_trace_is_told
    told = Queue.new
    goes_on = Queue.new
    log = Object.new
    log.define_singleton_method(:info) do |line|
      told << line
      goes_on.pop
    end
    serves = Thread.new { Lancet::Tracer.new(sample: 1, log: log).trace({}) { 1 } }
    serves.report_on_exception = false
    Timeout.timeout(LIMIT) { told.pop }
    serves.raise("enough")
    goes_on << nil
    assert_equal "enough", assert_raises(RuntimeError) { serves.value }.message
  end

  # A program that writes something else first, and a folder in which nobody may write.
  def test_requests_are_served_whatever_lancet_does
    script = <<~'RUBY'
      require "lancet/rack"
      app = Lancet::Rack.new(->(_) { [200, {}, []] }, sample: 1, log: $stdout)
      2.times { puts app.call("REQUEST_METHOD" => "GET", "PATH_INFO" => "/").first }
    RUBY
    { "echo hello" => "is no companion's", "echo '[1]'" => "is no companion's", "echo '{}'" => "is no companion's", "true" => "has not answered" }.each do |says, why|
      Tempfile.create("lancet") do |file|
        file.write("#!/bin/sh\n#{says}\n")
        file.chmod(0o755)
        file.close
        out = output_of(script, env: { "LANCET_BIN" => file.path })
        assert_match(/\Alancet: not traced: .*#{why}.*\n200\n200\n\z/, out)
      end
    end
    # A log that takes nothing either.
    out = output_of(script.sub("$stdout)", "File.new('/dev/full', 'w').tap { |log| log.sync = true })"), env: { "LANCET_BIN" => "/no/lancet" })
    assert_equal "200\n200\n", out
  end

  # Each request makes another number of objects; none is told more or fewer than its own.
  def test_requests_at_once
    work = lambda do |env|
      Integer(env["PATH_INFO"][1..]).times do
        Object.new
        Thread.pass
      end
      [200, {}, []]
    end
    told = Queue.new
    served = Lancet::Rack.new(work, sample: 1, log: nil) { |trace| told << trace }
    Array.new(5) { |thread| Thread.new { 1.upto(20) { |number| served.call(env("/#{thread * 20 + number}")) } } }.each(&:join)
    found = Array.new(100) { told.pop }.map do |trace|
      [Integer(trace.request[:path][1..]), trace.objects.select { |row| row.type == "Object" }.sum(&:born)]
    end
    assert_equal (1..100).map { |number| [number, number] }, found.sort
  end

  # Sidekiq makes its middleware anew for each job.
  def test_what_goes_wrong_with_jobs_is_said_once
    out = output_of(<<~'RUBY', env: { "LANCET_BIN" => "/no/lancet" })
      require "lancet/sidekiq"
      options = { sample: 1, log: $stdout }
      3.times { Lancet::Sidekiq.new(options).call(nil, { "class" => "Mail", "jid" => "a1" }, "default") { puts "done" } }
    RUBY
    assert_match(/\Alancet: not traced: .*\ndone\ndone\ndone\n\z/, out)
  end

  def test_jobs_of_sidekiq
    told = StringIO.new
    jobs = Lancet::Sidekiq.new({ sample: 1, log: told })
    job = { "class" => "Mail", "jid" => "a1", "args" => ["secret"] }
    assert_equal 5, jobs.call(nil, job, "default") { Object.new && 5 }
    assert_raises(KeyError) { jobs.call(nil, job, "default") { raise KeyError } }
    assert_match(/\Alancet: Mail default a1 .* 1 objects\n/, told.string)
    refute_includes told.string, "secret"
    assert_equal 6, Lancet::Sidekiq.new({ sample: 0, log: told }).call(nil, job, "default") { 6 }
  end
end
