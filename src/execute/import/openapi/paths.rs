//! Path templates: which belong together (`/things` and `/things/{id}`), whatever their parameters are called, and the request
//! line that is made of one.

/// A path of the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    /// As the document writes it.
    pub line: String,
    segments: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Fixed(String),
    /// One parameter and nothing beside it.
    Param(String),
    /// Parameters within text: `{name}.json`.
    Mixed(String, Vec<String>),
}

impl Template {
    /// `None`: it is no path that a request line can have.
    pub fn parse(line: &str) -> Option<Template> {
        let bad = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '#' | '?');
        if !line.starts_with('/') || line.contains(bad) {
            return None;
        }
        let segments = line.split('/').skip(1).filter(|part| !part.is_empty()).map(segment);
        Some(Template { line: line.to_owned(), segments: segments.collect::<Option<_>>()? })
    }

    /// The names of its parameters, in their order.
    pub fn params(&self) -> Vec<&str> {
        let names = self.segments.iter().flat_map(|segment| match segment {
            Segment::Fixed(_) => &[][..],
            Segment::Param(name) => std::slice::from_ref(name),
            Segment::Mixed(_, names) => names.as_slice(),
        });
        names.map(String::as_str).collect()
    }

    /// Whether its end is one parameter: it names one of many.
    pub fn is_item(&self) -> bool {
        matches!(self.segments.last(), Some(Segment::Param(_)))
    }

    /// How many segments it has.
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// Whether it is that path, parameters' names aside.
    pub fn is_like(&self, other: &Template) -> bool {
        self.len() == other.len() && self.begins_like(other)
    }

    /// Whether it begins with that path, parameters' names aside.
    pub fn begins_like(&self, other: &Template) -> bool {
        let alike = |(one, other): (&Segment, &Segment)| match (one, other) {
            (Segment::Fixed(one), Segment::Fixed(other)) => one == other,
            (Segment::Param(_), Segment::Param(_)) => true,
            (Segment::Mixed(one, _), Segment::Mixed(other, _)) => one == other,
            _ => false,
        };
        self.len() >= other.len() && self.segments.iter().zip(&other.segments).all(alike)
    }

    /// Whether that path names one of what this one lists.
    pub fn lists(&self, item: &Template) -> bool {
        item.is_item() && item.len() == self.len() + 1 && item.begins_like(self)
    }

    /// The fixed segments after the first `from`, joined; `None` where there are none.
    pub fn tail(&self, from: usize) -> Option<String> {
        let fixed = self.segments.iter().skip(from).filter_map(|segment| match segment {
            Segment::Fixed(text) => Some(text.as_str()),
            _ => None,
        });
        let joined = fixed.collect::<Vec<_>>().join("_");
        (!joined.is_empty()).then_some(joined)
    }

    /// All that it says, as one name.
    pub fn words(&self) -> String {
        let apart = self.line.split(|c: char| !c.is_ascii_alphanumeric());
        apart.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_")
    }

    /// The last fixed segment: what it is about.
    pub fn about(&self) -> Option<&str> {
        self.segments.iter().rev().find_map(|segment| match segment {
            Segment::Fixed(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// The fixed segment before the parameter of that number: what that parameter names one of.
    pub fn names_one_of(&self, param: usize) -> Option<&str> {
        let (mut seen, mut before) = (0, None);
        for segment in &self.segments {
            match segment {
                Segment::Fixed(text) => before = Some(text.as_str()),
                Segment::Param(_) if seen == param => return before,
                Segment::Param(_) => seen += 1,
                Segment::Mixed(_, names) => seen += names.len(),
            }
        }
        before
    }

    /// It up to that parameter, which is a segment of its own; `None`: it is none.
    pub fn until(&self, param: usize) -> Option<Template> {
        let mut params =
            self.segments.iter().enumerate().filter(|(_, one)| !matches!(one, Segment::Fixed(_)));
        let (at, _) = params.nth(param).filter(|(_, one)| matches!(one, Segment::Param(_)))?;
        Some(Template { line: String::new(), segments: self.segments[..=at].to_vec() })
    }

    /// The request line, with what stands in braces for the parameter of each number.
    pub fn send(&self, verb: &str, input: impl Fn(usize) -> String) -> String {
        let (mut line, mut rest, mut number) = (format!("{verb} "), self.line.as_str(), 0);
        while let Some((before, after)) = rest.split_once('{') {
            let (_, after) = after.split_once('}').expect("its braces were paired when it was read");
            line += &format!("{before}{{{}}}", input(number));
            (rest, number) = (after, number + 1);
        }
        line + rest
    }
}

fn segment(text: &str) -> Option<Segment> {
    let (mut names, mut plain, mut rest) = (Vec::new(), String::new(), text);
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}')?;
        if before.contains('}') || name.is_empty() || name.contains('{') {
            return None;
        }
        plain += &format!("{before}{{}}");
        names.push(name.to_owned());
        rest = after;
    }
    if rest.contains('}') {
        return None;
    }
    plain += rest;
    Some(match names.as_slice() {
        [] => Segment::Fixed(plain),
        [name] if plain == "{}" => Segment::Param(name.clone()),
        _ => Segment::Mixed(plain, names),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_found_by_their_form_and_request_lines_keep_the_rest() {
        let of = |line: &str| Template::parse(line).unwrap();
        let (list, item) = (of("/a/{x}/things"), of("/a/{y}/things/{id}"));
        assert!(list.lists(&item) && !item.lists(&list) && !of("/things").lists(&item));
        assert!(of("/a/{z}/things/{thing_id}/close").begins_like(&item));
        assert_eq!(of("/a/{z}/things/{t}/lock/now").tail(4).as_deref(), Some("lock_now"));
        assert_eq!(item.names_one_of(1), Some("things"));
        assert_eq!(of("/f/{a}.{b}/").send("GET", |n| format!("args.p{n}")), "GET /f/{args.p0}.{args.p1}/");
        for bad in ["things", "/a b", "/{", "/}", "/{}", "/{a{b}}", "/#Action=x", "/a?b=c"] {
            assert_eq!(Template::parse(bad), None, "{bad}");
        }
    }
}
