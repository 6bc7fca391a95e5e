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
    puts get["/"].inspect, get["/lancet"].inspect
  RUBY

  def answers(**env)
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "app.rb"), APPLICATION)
      out, err, code = Dir.chdir(folder) { ruby("app.rb", env: env.transform_keys(&:to_s)) }
      assert_equal 0, code, err
      skip "Rails is not installed" if out.start_with?("no Rails")
      return out.lines
    end
  end

  def test_the_page_in_development
    served, page = answers(RAILS_ENV: "development")
    assert_equal "[200, \"hello\"]\n", served
    assert_match(/\A\[200, .*GET \/: /, page)
    assert_match(%r{<td>3<td>[^<]*app.rb:12<td>Object}, page)
  end

  def test_the_page_takes_the_other_options
    text = written do |file|
      _, page = answers(RAILS_ENV: "development", FILE: file)
      assert_match(/\A\[200, .*GET \/: /, page)
    end
    assert_equal(%w[/ / /], (text.lines.map { |line| JSON.parse(line)["request"]["path"] }))
  end

  def test_the_middleware_elsewhere
    text = written do |file|
      served, page = answers(RAILS_ENV: "production", FILE: file)
      assert_equal "[200, \"hello\"]\n", served
      assert_match(/\A\[404/, page)
    end
    told = text.lines.map { |line| JSON.parse(line) }
    assert_equal %w[/ / / /lancet], (told.map { |one| one["request"]["path"] })
    row = told[2]["tracers"]["objects"]["lines"].find { |one| one["file"].end_with?("app.rb") && one["type"] == "Object" }
    assert_equal [12, 3], row.values_at("line", "count")
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

        def self.initializer(name, &block)
          (@initializers ||= {})[name] = block
        end
      end

      def self.env
        Struct.new(:name) { define_method(:development?) { name == "development" } }.new(ENV["RAILS_ENV"])
      end

      def self.logger
        $stdout
      end
    end
    require "lancet"
    railtie = Lancet::Railtie
    railtie.config.lancet.sample = 1 if ENV["SAMPLE"]
    middleware = []
    middleware.define_singleton_method(:use) { |*words, **options| push([*words, *options.keys]) }
    app = Struct.new(:config, :middleware).new(railtie.config, middleware)
    railtie.instance_variable_get(:@initializers).each_value { |block| block.call(app) }
    p middleware
  RUBY

  def test_the_railtie_loads_itself
    found = [{ "RAILS_ENV" => "development" }, { "RAILS_ENV" => "production" }, { "RAILS_ENV" => "production", "SAMPLE" => "1" }].map do |env|
      ruby(script: HOOKS, env: env).first
    end
    assert_equal ["[[Lancet::Page]]\n", "[]\n", "[[Lancet::Rack, :log, :sample]]\n"], found
  end

  def test_nothing_elsewhere_without_a_word
    _, page = answers(RAILS_ENV: "production")
    assert_match(/\A\[404/, page)
  end
end
