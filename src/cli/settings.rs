//! The flags that make a configuration, shared by the commands that run or show the gateway.

use std::path::PathBuf;

use crate::config::{self, ConfigError, Flag, Loaded, Sources, Values};

/// Where settings come from: flags win over the environment (`PLASM_MCP_…`), that over the file, that over defaults.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Settings {
    /// The configuration file (YAML); docs/configuration.md lists its keys
    #[arg(long, value_name = "FILE", env = "PLASM_MCP_CONFIG")]
    pub config: Option<PathBuf>,
    /// A client's file with mcpServers (Cursor, Claude, VS Code); may be given more than once
    #[arg(long, value_name = "FILE", env = "PLASM_MCP_MCP_JSON", value_delimiter = ',')]
    pub mcp_json: Vec<PathBuf>,
    /// Address of the public listener [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Address of the admin listener [default: 127.0.0.1:9090]
    #[arg(long, value_name = "ADDR")]
    pub admin_listen: Option<String>,
    /// Address at which other pods reach what this pod has for their callers [default: none]
    #[arg(long, value_name = "ADDR")]
    pub internal_listen: Option<String>,
    /// Scheme, host and port under which clients reach the gateway
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    /// Redis that keeps the state which pods share; needs sealing.keys [default: this process's memory]
    #[arg(long, value_name = "URL")]
    pub redis_url: Option<String>,
    /// Allow listening off loopback although nobody has to log in
    #[arg(long)]
    pub insecure_no_auth: bool,
    /// Which events are logged, such as info or info,plasm_mcp::upstream=debug
    #[arg(long, value_name = "FILTER")]
    pub log_filter: Option<String>,
}

impl Settings {
    /// The configuration of this process: these flags over its environment and files.
    ///
    /// # Errors
    /// [`ConfigError`]; a command answers it on standard error with exit code 2.
    pub fn load(&self, values: Values) -> Result<Loaded, ConfigError> {
        // A variable that is not UTF-8 can be no setting of ours and fill no text.
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        config::load(&self.sources(environment), values)
    }

    /// The files that the configuration is read from.
    pub fn files(&self) -> Vec<PathBuf> {
        self.config.iter().chain(&self.mcp_json).cloned().collect()
    }

    fn sources(&self, environment: Vec<(String, String)>) -> Sources {
        let texts = [
            ("--listen", &["listen"] as &'static [&'static str], &self.listen),
            ("--admin-listen", &["admin_listen"], &self.admin_listen),
            ("--internal-listen", &["internal_listen"], &self.internal_listen),
            ("--public-url", &["public_url"], &self.public_url),
            ("--redis-url", &["store", "redis_url"], &self.redis_url),
            ("--log-filter", &["log", "filter"], &self.log_filter),
        ];
        let mut flags: Vec<Flag> = texts
            .into_iter()
            .filter_map(|(flag, path, value)| Some(Flag { flag, path, value: value.clone()? }))
            .collect();
        if self.insecure_no_auth {
            let path = &["insecure_no_auth"];
            flags.push(Flag { flag: "--insecure-no-auth", path, value: "true".to_owned() });
        }
        Sources { file: self.config.clone(), mcp_json: self.mcp_json.clone(), environment, flags }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        settings: Settings,
    }

    fn load(args: &[&str], environment: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
        let args = std::iter::once("plasm-mcp").chain(args.iter().copied());
        let settings = Command::try_parse_from(args).unwrap().settings;
        let environment =
            environment.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        config::load(&settings.sources(environment), Values::Needed)
    }

    #[test]
    fn every_flag_reaches_its_setting() {
        let args = [
            "--listen=0.0.0.0:1",
            "--admin-listen=127.0.0.1:2",
            "--internal-listen=127.0.0.1:3",
            "--public-url=https://a.example/",
            "--insecure-no-auth",
            "--log-filter=debug",
        ];
        let config = load(&args, &[]).unwrap().config;
        assert_eq!(config.listen.to_string(), "0.0.0.0:1");
        assert_eq!(config.admin_listen.to_string(), "127.0.0.1:2");
        assert_eq!(config.internal_listen.unwrap().to_string(), "127.0.0.1:3");
        assert_eq!(config.public_url.as_deref(), Some("https://a.example"));
        assert!(config.insecure_no_auth);
        assert_eq!(config.log.filter, "debug");
    }

    #[test]
    fn redis_is_named_by_flag_file_or_its_old_variable_and_needs_keys() {
        let folder = tempfile::tempdir().unwrap();
        let (file, key) = (folder.path().join("plasm.yaml"), folder.path().join("key"));
        std::fs::write(&key, "k1:secret").unwrap();
        std::fs::write(&file, format!("sealing: {{keys: [{{file: {}}}]}}\n", key.display())).unwrap();
        let file = format!("--config={}", file.display());
        let url = |loaded: Loaded| {
            use secrecy::ExposeSecret as _;
            loaded.config.store.redis_url.unwrap().reveal().unwrap().expose_secret().to_owned()
        };
        let variable = [("PLASM_MCP_TRANSPORT_REDIS_URL", "redis://:pw@by-variable")];
        assert_eq!(url(load(&[&file], &variable).unwrap()), "redis://:pw@by-variable");
        let flag = "--redis-url=redis://:pw@by-flag";
        let loaded = load(&[&file, flag], &variable).unwrap();
        assert!(!config::to_yaml(&loaded).unwrap().contains("pw@"), "it is shown to nobody");
        assert_eq!(url(loaded), "redis://:pw@by-flag");
        let error = load(&[flag], &[]).unwrap_err().to_string();
        insta::assert_snapshot!(error, @"--redis-url: store.redis_url: needs sealing.keys beside it: a random key would differ from pod to pod, and what one pod gives its clients no other could read");
    }

    #[test]
    fn flag_goes_before_environment_before_file_before_default() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plasm.yaml");
        std::fs::write(&file, "listen: 127.0.0.1:1\nadmin_listen: 127.0.0.1:2\nlimits: {json_depth: 64}\n")
            .unwrap();
        let file = format!("--config={}", file.display());
        let environment = [("PLASM_MCP_LISTEN", "127.0.0.1:3"), ("PLASM_MCP_ADMIN_LISTEN", "127.0.0.1:4")];
        let config = load(&[&file, "--listen=127.0.0.1:5"], &environment).unwrap().config;
        assert_eq!((config.listen.port(), config.admin_listen.port()), (5, 4));
        assert_eq!((config.limits.json_depth, config.limits.page_items), (64, 500));
    }

    #[test]
    fn a_wrong_flag_is_named_as_it_was_written() {
        let error = load(&["--listen=8080"], &[]).unwrap_err().to_string();
        insta::assert_snapshot!(error, @r#"--listen: listen: expected an address and port such as 127.0.0.1:8080, found "8080""#);
    }
}
