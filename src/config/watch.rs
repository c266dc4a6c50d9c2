//! Looks whether the files of a configuration have changed, by what the file system says of them: it works with editors
//! that put another file in its place, and with the links by which Kubernetes swaps a mounted ConfigMap.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

/// How often they are looked at. A change counts once two looks agree on it: who writes is then done.
const PACE: Duration = Duration::from_secs(1);

/// Watches the files of one configuration.
pub struct Watch {
    files: Vec<PathBuf>,
    /// As they were when a change was last told of.
    known: Vec<Mark>,
}

/// What tells one state of a file from another; `None` while there is no such file.
type Mark = Option<(u64, u64, i64, i64, u64)>;

impl Watch {
    pub fn new(files: Vec<PathBuf>) -> Watch {
        let known = marks(&files);
        Watch { files, known }
    }

    /// Resolves when some file is another one than before.
    pub async fn changed(&mut self) {
        let mut last = self.known.clone();
        loop {
            tokio::time::sleep(PACE).await;
            let now = marks(&self.files);
            if now != self.known && now == last {
                self.known = now;
                return;
            }
            last = now;
        }
    }
}

fn marks(files: &[PathBuf]) -> Vec<Mark> {
    let mark = |file: &PathBuf| {
        let data = std::fs::metadata(file).ok()?;
        Some((data.dev(), data.ino(), data.mtime(), data.mtime_nsec(), data.len()))
    };
    files.iter().map(mark).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_swapped_link_is_another_file_though_its_content_is_as_old_and_as_long() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for version in ["..1", "..2"] {
            std::fs::create_dir(at(version)).unwrap();
            std::fs::write(at(version).join("plasm.yaml"), "limits: {}").unwrap();
        }
        symlink("..1", at("..data")).unwrap();
        symlink("..data/plasm.yaml", at("plasm.yaml")).unwrap();
        let files = vec![at("plasm.yaml")];
        let before = marks(&files);
        assert_eq!(before, marks(&files));
        symlink("..2", at("..new")).unwrap();
        std::fs::rename(at("..new"), at("..data")).unwrap();
        assert_ne!(before, marks(&files));
        std::fs::remove_file(at("..data")).unwrap();
        assert_eq!(marks(&files), [None]);
    }
}
