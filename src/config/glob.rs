//! Patterns over names: `*` for any characters, `?` for one. Everything else means itself.

/// Whether the whole name matches. Takes time in proportion to pattern × name at most: no pattern can make it explode.
pub fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut at, mut from) = (0, 0);
    // Where to go on when what follows the last star does not fit: one character more for that star.
    let mut star: Option<(usize, usize)> = None;
    while from < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(&one) if one == '?' || one == name[from] => {
                at += 1;
                from += 1;
            }
            _ => match star {
                Some((star_at, taken)) => {
                    star = Some((star_at, taken + 1));
                    at = star_at + 1;
                    from = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_take_any_run_and_question_marks_one() {
        let cases = [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("read", "read", true),
            ("read", "Read", false),
            ("read_*", "read_", true),
            ("*_file", "read_file_file", true),
            ("r?ad", "road", true),
            ("r?ad", "rad", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-d", false),
            ("[a]", "a", false),
            ("**é", "née", false),
            ("n?e", "née", true),
        ];
        for (pattern, name, want) in cases {
            assert_eq!(matches(pattern, name), want, "{pattern} {name}");
        }
    }
}
