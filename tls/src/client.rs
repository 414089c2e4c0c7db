//! The client's side of a handshake.
use alloc::boxed::Box;
use alloc::sync::Arc;

use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::ClientConfig;

use crate::identity::Identity;
use crate::shake::{failure_of, provider, Connection, Handshake, Heard, Now};
use crate::trust::trust;
use crate::Failure;

/// All in PEM; `now` in seconds since 1970.
pub fn begin(
    host: &[u8],
    authorities: &[u8],
    identity: Option<Identity<'_>>,
    now: u64,
) -> Result<Handshake, Failure> {
    let provider = provider();
    let name = ServerName::try_from(host).map_err(|_| Failure::BadHost)?.to_owned();
    let trust = trust(authorities, &provider).ok_or(Failure::BadAuthorities)?;
    let builder = ClientConfig::builder_with_details(provider.clone(), Now::new(now))
        .with_protocol_versions(&[&TLS13])
        .map_err(|_| Failure::Other)?
        .dangerous()
        .with_custom_certificate_verifier(trust);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let own = identity.read(&provider)?;
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own)))
        }
    };
    let heard = Heard::new();
    config.key_log = heard.clone();
    config.enable_secret_extraction = true;
    config.resumption = Resumption::disabled();
    match UnbufferedClientConnection::new(Arc::new(config), name) {
        Ok(connection) => Ok(Handshake::new(Connection::Client(Box::new(connection)), heard)),
        Err(error) => Err(failure_of(&error)),
    }
}
