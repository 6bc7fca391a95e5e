# frozen_string_literal: true

require_relative "page"

module Lancet
  # For Rails: in development each request is traced and shown at `/lancet`; elsewhere those that `config.lancet` says, and a page is shown to who signs.
  #
  #   config.lancet.sample = 0.01        # and the other options of Lancet::Rack; the page has each request however long it took
  #   config.lancet.page = false         # no page in development
  class Railtie < ::Rails::Railtie
    config.lancet = ActiveSupport::OrderedOptions.new

    # After the application's config/initializers, in which it is configured, and before its middleware is put together.
    initializer "lancet.middleware", after: :load_config_initializers do |app|
      options = app.config.lancet.to_h
      page = options.delete(:page) { ::Rails.env.development? }
      if page
        options[:path] = page unless page == true
        # Not `except`, which Ruby 2.7 has from ActiveSupport alone, where somebody has loaded it.
        options.reject! { |name, _| %i[sample threshold].include?(name) } if ::Rails.env.development?
        app.middleware.use(Page, root: ::Rails.root, folder: ::Rails.root.join("tmp/lancet"), signed: !::Rails.env.development?, **options)
      elsif !options.empty?
        app.middleware.use(Rack, log: ::Rails.logger, **options)
      end
    end
  end
end
