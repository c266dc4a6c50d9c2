//! Whether a URI is an expansion of a URI template (RFC 6570). Levels 1 to 4 are read; operators of level 2 and above
//! match liberally, for what decides is only whose template it is.

/// The longest URI that is compared with templates, in bytes.
const LONGEST: usize = 8 * 1024;

/// A template of more parts matches itself alone: each costs a walk over the URI.
const MOST_PARTS: usize = 32;

/// A template's parts, ready to compare.
#[derive(Debug)]
pub(super) struct Template(Vec<Part>);

#[derive(Debug, PartialEq)]
enum Part {
    Literal(String),
    /// `{x}`: one or more characters of one segment.
    Segment,
    /// `{+x}`: anything.
    Any,
    /// `{.x}`, `{/x}`, `{;x}`, `{?x}`, `{&x}`, `{#x}`: nothing, or the mark and what may follow it.
    Marked(u8),
}

impl Template {
    /// An unclosed brace is a literal: such a template matches itself alone.
    pub(super) fn parse(text: &str) -> Template {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((expression, after)) = after.split_once('}') else { break };
            if !before.is_empty() {
                parts.push(Part::Literal(before.to_owned()));
            }
            parts.push(match expression.as_bytes().first() {
                Some(b'+') => Part::Any,
                Some(&mark @ (b'.' | b'/' | b';' | b'?' | b'&' | b'#')) => Part::Marked(mark),
                _ => Part::Segment,
            });
            rest = after;
            if parts.len() > MOST_PARTS {
                return Template(vec![Part::Literal(text.to_owned())]);
            }
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest.to_owned()));
        }
        Template(parts)
    }

    /// Takes time in proportion to parts × URI at most: no template can make it explode.
    pub(super) fn matches(&self, uri: &str) -> bool {
        let uri = uri.as_bytes();
        if uri.len() > LONGEST {
            return false;
        }
        // Most templates are of other URIs altogether.
        if let Some(Part::Literal(text)) = self.0.first()
            && !uri.starts_with(text.as_bytes())
        {
            return false;
        }
        // Where the parts so far may have ended.
        let mut ends = vec![false; uri.len() + 1];
        ends[0] = true;
        for part in &self.0 {
            ends = part.follow(uri, &ends);
        }
        ends[uri.len()]
    }
}

impl Part {
    fn follow(&self, uri: &[u8], from: &[bool]) -> Vec<bool> {
        let mut ends = vec![false; from.len()];
        match self {
            Part::Literal(text) => {
                for at in (0..from.len()).filter(|at| from[*at]) {
                    if uri[at..].starts_with(text.as_bytes()) {
                        ends[at + text.len()] = true;
                    }
                }
            }
            Part::Segment => {
                for at in 0..uri.len() {
                    ends[at + 1] = (from[at] || ends[at]) && !matches!(uri[at], b'/' | b'?' | b'#');
                }
            }
            Part::Any => {
                for at in 0..from.len() {
                    ends[at] = from[at] || (at > 0 && ends[at - 1]);
                }
            }
            Part::Marked(mark) => {
                // Where the mark was seen and the value goes on.
                let mut within = false;
                for at in 0..from.len() {
                    ends[at] = from[at] || within;
                    let Some(&byte) = uri.get(at) else { continue };
                    within = (from[at] && byte == *mark) || (within && Part::may_follow(*mark, byte));
                }
            }
        }
        ends
    }

    fn may_follow(mark: u8, byte: u8) -> bool {
        match mark {
            b'#' => true,
            b'/' | b'?' | b'&' => byte != b'#',
            _ => !matches!(byte, b'/' | b'?' | b'#'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expansions_match_and_others_do_not() {
        let cases = [
            ("memo:{k}", "memo:insights", true),
            ("memo:{k}", "memo:", false),
            ("memo:{k}", "memo:a/b", false),
            ("urn:x:{y}", "urn:x:y", true),
            ("test://t/{id}/data", "test://t/12/data", true),
            ("test://t/{id}/data", "test://t/1/2/data", false),
            ("test://t/{id}/data", "test://t/12/datax", false),
            ("file:///{+path}", "file:///a/b.txt", true),
            ("file://{/path*}", "file:///a/b.txt", true),
            ("x://a{?q,r}", "x://a", true),
            ("x://a{?q,r}", "x://a?q=1&r=2", true),
            ("x://a{?q,r}", "x://ab", false),
            ("x://a?f=1{&q}", "x://a?f=1&q=2", true),
            ("x://a{#frag}", "x://a#b", true),
            ("x://a{.ext}", "x://a.tar.gz", true),
            ("x://{a}-{b}", "x://1-2-3", true),
            ("x://{unclosed", "x://{unclosed", true),
            ("x://{unclosed", "x://y", false),
            ("memo:{k}", "memo:é", true),
        ];
        for (template, uri, want) in cases {
            assert_eq!(Template::parse(template).matches(uri), want, "{template} {uri}");
        }
    }

    #[test]
    fn a_template_of_many_variables_takes_no_time_to_speak_of() {
        let template = Template::parse(&"{a}".repeat(MOST_PARTS));
        assert!(template.matches(&"a".repeat(4000)));
        assert!(!template.matches(&format!("{}/", "a".repeat(4000))));
        let more = "{a}".repeat(MOST_PARTS + 1);
        assert!(Template::parse(&more).matches(&more) && !Template::parse(&more).matches(&"a".repeat(4000)));
    }
}
