require_relative "test_helper"
require "tmpdir"

# Rails itself with the railtie: the page in development, the middleware as it is configured elsewhere.
class RailsTest < LancetTest
  APPLICATION = <<~'RUBY'
    begin
      require "rails"
      require "action_controller/railtie"
    rescue LoadError
      puts "no Rails"
      exit
    end
    # As Bundler does for `gem "lancet"`, after Rails.
    require "lancet"
    class HelloController < ActionController::Base
      def index
        3.times { Object.new }
        render plain: "hello"
      end
    end
    class App < Rails::Application
      config.root = Dir.pwd
      config.eager_load = false
      config.logger = Logger.new(File::NULL)
      config.secret_key_base = "a key of this test alone"
      config.hosts.clear
      # To hook the functions of a process as large as this takes its time.
      config.lancet.calls = false if Rails.env.development?
      if ENV["FILE"]
        config.lancet.sample = 1
        config.lancet.file = ENV["FILE"]
      end
      routes.append { root to: "hello#index" }
    end
    App.initialize!
    get = lambda do |path|
      status, _, body = App.call(Rack::MockRequest.env_for(path))
      text = +""
      body.each { |part| text << part }
      [status, text]
    end
    2.times { get["/"] }
    served = get["/"]
    status, page = get["/lancet"]
    data = page[%r{<script type="application/json" id="data">(.*?)</script>}m, 1]
    puts served.inspect, status, data.to_s
  RUBY

  def answers(initializer: nil, **env)
    Dir.mktmpdir do |folder|
      FileUtils.mkdir_p(File.join(folder, "config/initializers"))
      File.write(File.join(folder, "config/initializers/lancet.rb"), initializer) if initializer
      File.write(File.join(folder, "app.rb"), APPLICATION)
      out, err, code = Dir.chdir(folder) { ruby("app.rb", env: env.transform_keys(&:to_s)) }
      assert_equal 0, code, err
      skip "Rails is not installed" if out.start_with?("no Rails")
      return out.lines
    end
  end

  def test_the_page_in_development
    served, status, page = answers(RAILS_ENV: "development")
    assert_equal ["[200, \"hello\"]\n", "200\n"], [served, status]
    one = JSON.parse(page)["requests"][0]
    assert_equal ["GET /", "GET hello#index"], one.values_at("title", "route")
    row = one["objects"]["lines"].find { |line| line["file"].end_with?("app.rb") && line["type"] == "Object" }
    assert_equal [12, 3], row.values_at("line", "count")
  end

  def test_the_page_takes_the_other_options
    text = written do |file|
      _, status, = answers(RAILS_ENV: "development", FILE: file)
      assert_equal "200\n", status
    end
    assert_equal(%w[/ / /], (text.lines.map { |line| JSON.parse(line)["request"]["path"] }))
  end

  def test_the_middleware_elsewhere
    text = written do |file|
      served, status, = answers(RAILS_ENV: "production", FILE: file)
      assert_equal ["[200, \"hello\"]\n", "404\n"], [served, status]
    end
    told = text.lines.map { |line| JSON.parse(line) }
    assert_equal %w[/ / / /lancet], (told.map { |one| one["request"]["path"] })
    row = told[2]["tracers"]["objects"]["lines"].find { |one| one["file"].end_with?("app.rb") && one["type"] == "Object" }
    assert_equal [12, 3], row.values_at("line", "count")
  end

  # Where every other gem is configured.
  def test_what_an_initializer_of_the_application_says
    initializer = "Rails.application.config.lancet.sample = 1\nRails.application.config.lancet.file = ENV.fetch(\"TRACES\")\n"
    text = written do |file|
      served, = answers(initializer: initializer, RAILS_ENV: "production", TRACES: file)
      assert_equal "[200, \"hello\"]\n", served
    end
    assert_equal 4, text.lines.size
    _, status, = answers(initializer: "Rails.application.config.lancet.page = false\n", RAILS_ENV: "development")
    assert_equal "404\n", status
  end

  # All that the railtie asks of Rails, whatever its version is.
  HOOKS = <<~'RUBY'
    module ActiveSupport
      class OrderedOptions < Hash
        def method_missing(name, *values)
          values.empty? ? self[name] : self[name.to_s.chomp("=").to_sym] = values.first
        end
      end
    end
    module Rails
      class Railtie
        def self.config
          @config ||= ActiveSupport::OrderedOptions.new
        end

        def self.initializer(name, **, &block)
          (@initializers ||= {})[name] = block
        end
      end

      def self.env
        Struct.new(:name) { define_method(:development?) { name == "development" } }.new(ENV["RAILS_ENV"])
      end

      def self.logger
        $stdout
      end

      def self.root
        Pathname.new("/srv")
      end
    end
    require "pathname"
    require "lancet"
    railtie = Lancet::Railtie
    railtie.config.lancet.sample = 1 if ENV["SAMPLE"]
    railtie.config.lancet.page = true if ENV["PAGE"]
    middleware = []
    middleware.define_singleton_method(:use) { |*words, **options| push([*words, options.merge(log: nil).slice(*options.keys)]) }
    app = Struct.new(:config, :middleware).new(railtie.config, middleware)
    railtie.instance_variable_get(:@initializers).each_value { |block| block.call(app) }
    p middleware
  RUBY

  def test_the_railtie_loads_itself
    found = [{ "RAILS_ENV" => "development" }, { "RAILS_ENV" => "production" }, { "RAILS_ENV" => "production", "SAMPLE" => "1" },
             { "RAILS_ENV" => "production", "PAGE" => "1" }].map do |env|
      ruby(script: HOOKS, env: env).first
    end
    page = "[[Lancet::Page, {:root=>#<Pathname:/srv>, :folder=>#<Pathname:/srv/tmp/lancet>, :signed=>false}]]\n"
    assert_equal [page, "[]\n", "[[Lancet::Rack, {:log=>nil, :sample=>1}]]\n", page.sub("false", "true")], (found.map { |one| one.gsub(/(\w+): /, ':\1=>') })
  end

  def test_nothing_elsewhere_without_a_word
    _, status, = answers(RAILS_ENV: "production")
    assert_equal "404\n", status
  end
end
