require_relative "test_helper"
require "rubygems/package"
require "tmpdir"

# The gem as `rake build` makes it of this folder.
class PackageTest < LancetTest
  FOLDER = File.expand_path("..", __dir__)
  CARGO = File.expand_path("../Cargo.toml", FOLDER)

  def setup
    skip "the repository is not here, as in the root of another version" unless File.exist?(CARGO)
  end

  def built(mode)
    Dir.mktmpdir do |folder|
      program = File.join(folder, "lancet")
      File.write(program, "#!/bin/sh\n")
      File.chmod(mode, program)
      before = File.umask(mode == 0o755 ? 0o022 : 0o077)
      begin
        _, err, code = ruby("-S", "rake", "-f", File.join(FOLDER, "Rakefile"), "build", env: { "LANCET_BIN" => program, "PKG" => folder, "SOURCE_DATE_EPOCH" => nil })
      ensure
        File.umask(before)
      end
      skip "rake is not installed" if err.include?("can't find gem rake") || err.include?("No such file or directory -- rake")
      assert_equal 0, code, err
      file = Dir[File.join(folder, "*.gem")].first
      return File.binread(file), Gem::Package.new(file).spec
    end
  end

  # Its bytes do not tell when it was built, nor with what modes files were made.
  def test_two_builds_are_equal
    first, = built(0o755)
    # A second later: what takes the time of now takes another one.
    began = Time.now.to_i
    sleep 0.01 until Time.now.to_i > began
    second, = built(0o700)
    assert first == second, "two builds are not the same bytes"
  end

  def test_what_it_says_of_itself
    _, spec = built(0o755)
    repository = File.read(CARGO)[/^repository = "(.+)"$/, 1]
    assert_equal repository, spec.homepage
    links = spec.metadata.select { |name, _| name.end_with?("_uri") }
    assert_equal %w[bug_tracker_uri changelog_uri documentation_uri source_code_uri], links.keys.sort
    links.each_value { |link| assert link.start_with?(repository), link }
    assert_equal [], %w[.yardopts LICENSE-APACHE LICENSE-MIT README.md exe/lancet lib/lancet.rb lib/lancet/railtie.rb libexec/lancet sig/lancet.rbs] - spec.files
  end
end
