//! The protocol revisions we speak, and the era that each belongs to.

use std::fmt;

/// A protocol revision. Ordered by age.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Version {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
}

/// Who holds the state: each request by itself (modern), or a session begun by `initialize` (legacy).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Era {
    Legacy,
    Modern,
}

impl Version {
    /// Newest first, as `supported` and `supportedVersions` list them.
    pub const ALL: [Version; 5] = [
        Version::V2026_07_28,
        Version::V2025_11_25,
        Version::V2025_06_18,
        Version::V2025_03_26,
        Version::V2024_11_05,
    ];
    pub const NEWEST_LEGACY: Version = Version::V2025_11_25;
    /// What a legacy request without a version header speaks (2025-11-25 transports, *Protocol Version Header*).
    pub const UNSAID: Version = Version::V2025_03_26;
    pub const MODERN: Version = Version::V2026_07_28;

    pub fn parse(text: &str) -> Option<Version> {
        Version::ALL.into_iter().find(|v| v.as_str() == text)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Version::V2024_11_05 => "2024-11-05",
            Version::V2025_03_26 => "2025-03-26",
            Version::V2025_06_18 => "2025-06-18",
            Version::V2025_11_25 => "2025-11-25",
            Version::V2026_07_28 => "2026-07-28",
        }
    }

    pub fn era(self) -> Era {
        if self >= Version::V2026_07_28 { Era::Modern } else { Era::Legacy }
    }

    /// Only 2025-03-26 has JSON-RPC batches; they came with it and left with 2025-06-18.
    pub fn has_batches(self) -> bool {
        self == Version::V2025_03_26
    }

    /// The version that an `initialize` asking for `asked` gets: that one if it is a legacy one of ours, else our
    /// newest legacy one (2025-11-25 lifecycle, *Version Negotiation*).
    pub fn negotiate(asked: &str) -> Version {
        Version::parse(asked).filter(|v| v.era() == Era::Legacy).unwrap_or(Version::NEWEST_LEGACY)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
