# frozen_string_literal: true

require_relative "recent"
require_relative "tracer"

module Lancet
  # Server middleware of Sidekiq: traces some jobs, with the options of Tracer.
  #
  #   Sidekiq.configure_server do |config|
  #     config.server_middleware { |chain| chain.add Lancet::Sidekiq, sample: 0.1, log: Sidekiq.logger }
  #   end
  #
  # With `page:`, a folder, what is traced is on the page of an application that has the same `folder:` (see Page).
  class Sidekiq
    @tracers = {}
    @lock = Mutex.new

    # Sidekiq makes its middleware anew for each job, and what goes wrong is said once.
    def self.tracer(options)
      @lock.synchronize { @tracers[options] ||= of(**options) }
    end

    def self.of(page: nil, **options)
      return Tracer.new(**options) unless page

      recent = Recent.new(folder: page)
      options[:calls] = Counters::SHOWN if [nil, true].include?(options[:calls])
      Tracer.new(log: nil, keep: false, **options) do |trace|
        recent.add(trace)
        recent.write
      end
    end
    private_class_method :of

    def initialize(options = {})
      @tracer = Sidekiq.tracer(options)
    end

    # Of a job its class, queue and id are told, and no arguments, which may hold secrets.
    def call(_worker, job, queue)
      return yield unless @tracer.chosen?

      told = @tracer.border { { job: name_of(job).to_s, queue: queue.to_s, id: job["jid"].to_s } }
      return yield unless told

      @tracer.trace(told) { yield }.first
    end

    private

    # Jobs of Active Job have one class; Sidekiq itself logs these names.
    def name_of(job)
      job["display_class"] || job["wrapped"] || job["class"]
    end
  end
end
