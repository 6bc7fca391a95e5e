require_relative "test_helper"
require "tmpdir"

# The examples of README.md: what they print is what stands below them.
class ReadmeTest < LancetTest
  README = File.read(File.expand_path("../README.md", __dir__))
  EXAMPLES = README.scan(/^```ruby\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?/m)

  def test_there_are_some
    assert_equal [7, 2], EXAMPLES.partition(&:last).map(&:size)
  end

  EXAMPLES.each.with_index(1) do |(code, output), number|
    define_method("test_example_#{number}") do
      if code.include?("rspec")
        begin
          require "rspec/expectations"
        rescue LoadError
          skip "rspec is not installed"
        end
      end
      Dir.mktmpdir do |folder|
        File.write(File.join(folder, "app.rb"), code)
        words = code.include?("RSpec.describe") ? ["-S", "rspec", "app.rb"] : ["app.rb"]
        out, err, code = Dir.chdir(folder) { ruby(*words) }
        assert_equal 0, code, out + err
        assert_equal output, out + err if output
      end
    end
  end
end
