require_relative "test_helper"
require "lancet/sidekiq"

# Sidekiq itself, where it is installed, and what its server makes of middleware in other versions.
class SidekiqTest < LancetTest
  JOB = <<~'RUBY'
    begin
      require "sidekiq/testing"
    rescue LoadError
      puts "no Sidekiq"
      exit
    end
    require "lancet/sidekiq"
    class Mail
      include Sidekiq::Worker
      def perform(number)
        number.times { Object.new }
      end
    end
    Sidekiq::Testing.inline!
    Sidekiq::Testing.server_middleware do |chain|
      chain.add Lancet::Sidekiq, sample: 1, objects: true, log: $stdout
    end
    Mail.perform_async(3)
    Mail.perform_async(5)
  RUBY

  def test_jobs_of_sidekiq_itself
    out = output_of(JOB)
    skip "Sidekiq is not installed" if out == "no Sidekiq\n"
    # Sidekiq itself says other lines.
    told = out.lines.grep(/^lancet: /).map { |line| line[/lancet: Mail default \h{24} .* (\d) objects$/, 1] }
    assert_equal %w[3 5], told, out
  end

  # Sidekiq 7 and 8 make the middleware anew for each job with what `add` was given, hand it their configuration if it takes one, and call it with an instance of the
  # job, the job and its queue.
  def test_the_chain_of_sidekiq_seven_and_eight
    chain = Class.new do
      def add(klass, *args)
        @entry = [klass, args]
      end

      def invoke(*job, &work)
        klass, args = @entry
        middleware = klass.new(*args)
        middleware.config = {} if klass.method_defined?(:config=)
        middleware.call(*job, &work)
      end
    end.new
    told = StringIO.new
    chain.add Lancet::Sidekiq, sample: 1, log: told
    assert_equal 7, chain.invoke(Object.new, { "class" => "Mail", "jid" => "a1", "args" => ["secret"] }, "default") { 7 }
    assert_match(/\Alancet: Mail default a1 \d/, told.string)
  end

  # Those of Active Job have one class, and what they are in `wrapped`.
  def test_jobs_of_active_job
    told = StringIO.new
    jobs = Lancet::Sidekiq.new({ sample: 1, log: told })
    jobs.call(nil, { "class" => "Sidekiq::ActiveJob::Wrapper", "wrapped" => "MailJob", "jid" => "a1" }, "default") { nil }
    jobs.call(nil, { "class" => "Proxy", "display_class" => "Cart#save", "jid" => "a2" }, "default") { nil }
    assert_match(/\Alancet: MailJob default a1 .*\nlancet: Cart#save default a2 .*\n\z/, told.string)
  end
end
