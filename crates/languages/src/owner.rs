//! Decides from its path whose code a file is: a library's, the language's own, or the application's. The path is all there is to go by; the
//! process is not asked. `births::analysis` and the answers of `heap` ask it.

/// The owner of a file that belongs to no library.
pub const APP: &str = "app";

#[cfg(test)]
mod tests {
    use crate::owner;

    #[test]
    fn layouts() {
        for (path, expected) in [
            (
                "/srv/env/lib/python3.11/site-packages/django/db/models.py",
                "django",
            ),
            ("/usr/lib/python3/dist-packages/six.py", "six"),
            ("/usr/lib/python3.11/json/decoder.py", "python stdlib"),
            ("/srv/python3/lib/shop.py", "app"),
            ("<frozen importlib._bootstrap>", "python stdlib"),
            (
                "/usr/local/bundle/gems/rack-2.2.4/lib/rack/utils.rb",
                "rack-2.2.4",
            ),
            (
                "/var/lib/gems/3.1.0/gems/nokogiri-1.15.4-x86_64-linux/lib/nokogiri.rb",
                "nokogiri-1.15.4-x86_64-linux",
            ),
            (
                "/var/lib/gems/3.1.0/extensions/x86_64-linux/3.1.0/bcrypt-3.1.20/bcrypt_ext.so",
                "bcrypt-3.1.20",
            ),
            (
                "/srv/a/vendor/bundle/ruby/3.1.0/bundler/gems/shop-core-deadbeef1234/lib/a.rb",
                "shop-core-deadbeef1234",
            ),
            (
                "/usr/share/rubygems-integration/all/gems/rake-13.0.6/lib/rake.rb",
                "rake-13.0.6",
            ),
            (
                "/gems/outer-1.0/vendor/gems/inner-2.0/lib/a.rb",
                "inner-2.0",
            ),
            ("/usr/lib/ruby/vendor_ruby/rack/utils.rb", "rack"),
            ("/usr/lib/ruby/vendor_ruby/rack.rb", "rack"),
            (
                "/usr/lib/x86_64-linux-gnu/ruby/vendor_ruby/3.1.0/puma/puma_http11.so",
                "puma",
            ),
            (
                "/usr/local/lib/ruby/site_ruby/3.1.0/x86_64-linux/ox.so",
                "ox",
            ),
            ("/usr/lib/ruby/3.1.0/json/common.rb", "ruby stdlib"),
            (
                "/usr/lib/x86_64-linux-gnu/ruby/3.1.0/stringio.so",
                "ruby stdlib",
            ),
            (
                "/home/me/.rbenv/versions/3.4.1/lib/ruby/3.4.0/set.rb",
                "ruby stdlib",
            ),
            ("<internal:kernel>", "ruby core"),
            (
                "<internal:/usr/lib/ruby/vendor_ruby/rubygems/core_ext/kernel_require.rb>",
                "rubygems",
            ),
            (
                "(eval at /usr/local/bundle/gems/erubi-1.12.0/lib/erubi.rb:12)",
                "erubi-1.12.0",
            ),
            (
                "(eval at /usr/lib/python3/dist-packages/shop/a.rb:12)",
                "shop",
            ),
            (
                "<internal:/srv/env/lib/python3.11/site-packages/shop/a.rb>",
                "shop",
            ),
            ("(eval at /srv/shop/a.rb:12)", "app"),
            ("/home/me/gems/shop/lib/a.rb", "app"),
            ("/home/me/gems/web-app/lib/a.rb", "app"),
            ("/srv/ruby/3.1.0/a.rb", "app"),
            ("app.rb", "app"),
            ("-e", "app"),
            ("(eval)", "app"),
            ("", "app"),
        ] {
            assert_eq!(owner(path), expected, "{path}");
        }
    }
}
