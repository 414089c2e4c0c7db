//! A client's handshake, by rustls: bytes in, bytes out; whoever calls owns the socket.
use alloc::sync::Arc;
use alloc::vec::Vec;

use rustls::client::{ClientConnectionData, Resumption, UnbufferedClientConnection};
use rustls::crypto::{ring, CryptoProvider};
use rustls::kernel::KernelConnection;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::time_provider::TimeProvider;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::version::TLS13;
use rustls::{AlertDescription, CertificateError, ClientConfig, Error, ExtractedSecrets, InconsistentKeys};

use crate::trust::trust;
use crate::Failure;

/// The time at which the connection is made.
#[derive(Debug)]
struct Now(UnixTime);
impl TimeProvider for Now {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.0)
    }
}

pub struct Identity<'a> {
    pub certificate: &'a [u8],
    pub key: &'a [u8],
}

/// All in PEM; `now` in seconds since 1970.
pub fn begin(
    host: &[u8],
    authorities: &[u8],
    identity: Option<Identity<'_>>,
    now: u64,
) -> Result<UnbufferedClientConnection, Failure> {
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
    let name = ServerName::try_from(host).map_err(|_| Failure::BadHost)?.to_owned();
    let trust = trust(authorities, &provider).ok_or(Failure::BadAuthorities)?;
    let now = Arc::new(Now(UnixTime::since_unix_epoch(core::time::Duration::from_secs(now))));
    let builder = ClientConfig::builder_with_details(provider.clone(), now)
        .with_protocol_versions(&[&TLS13])
        .map_err(|_| Failure::Other)?
        .dangerous()
        .with_custom_certificate_verifier(trust);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(Identity { certificate, key }) => {
            let own = own(certificate, key, &provider)?;
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own)))
        }
    };
    config.enable_secret_extraction = true;
    config.resumption = Resumption::disabled();
    UnbufferedClientConnection::new(Arc::new(config), name).map_err(|error| failure_of(&error))
}

/// What the client shows. Servers read more than we do, such as certificates of version 1: what matters is that the key
/// is not known to be another's.
fn own(certificate: &[u8], key: &[u8], provider: &CryptoProvider) -> Result<CertifiedKey, Failure> {
    let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>();
    let chain = chain.ok().filter(|all| !all.is_empty()).ok_or(Failure::BadCertificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| Failure::BadKey)?;
    let key = provider.key_provider.load_private_key(key).map_err(|_| Failure::BadKey)?;
    let own = CertifiedKey::new(chain, key);
    match own.keys_match() {
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => Err(Failure::BadPair),
        _ => Ok(own),
    }
}

pub struct Step {
    /// Of `incoming`, from its start.
    pub used: usize,
    /// Of `outgoing`, to be sent, also where it has failed: the other side is told why.
    pub made: usize,
    /// Whether it is done: what is left of `incoming` are records under the connection's keys.
    pub done: Result<bool, Failure>,
}

/// Goes on with what has come. It wants `outgoing` of 16 KiB and the size of the client's certificates.
pub fn step(connection: &mut UnbufferedClientConnection, incoming: &mut [u8], outgoing: &mut [u8]) -> Step {
    let (mut used, mut made) = (0, 0);
    let mut failed = None;
    loop {
        // What follows the handshake is not for rustls any more, nor anything after a failure.
        let over = failed.is_some() || !connection.is_handshaking();
        let rest = if over { &mut [] } else { &mut incoming[used..] };
        let UnbufferedStatus { discard, state } = connection.process_tls_records(rest);
        used += discard;
        let end = match state {
            Ok(ConnectionState::EncodeTlsData(mut encode)) => match encode.encode(&mut outgoing[made..]) {
                Ok(size) => {
                    made += size;
                    None
                }
                Err(EncodeError::InsufficientSize(_)) => Some(Err(Failure::BadCertificate)),
                Err(EncodeError::AlreadyEncoded) => Some(Err(Failure::Other)),
            },
            Ok(ConnectionState::TransmitTlsData(transmit)) => {
                transmit.done();
                None
            }
            Ok(ConnectionState::BlockedHandshake) => Some(Ok(false)),
            Ok(ConnectionState::WriteTraffic(_)) => Some(Ok(true)),
            Ok(_) => Some(Err(Failure::Closed)),
            Err(_) if failed.is_some() => Some(Ok(false)),
            // Once more, for the alert.
            Err(error) => {
                failed = Some(failure_of(&error));
                None
            }
        };
        if let Some(done) = end {
            let done = failed.map_or(done, Err);
            return Step { used, made, done };
        }
    }
}

pub type Kernel = KernelConnection<ClientConnectionData>;

pub fn end(connection: UnbufferedClientConnection) -> Option<(ExtractedSecrets, Kernel)> {
    connection.dangerous_into_kernel_connection().ok()
}

fn failure_of(error: &Error) -> Failure {
    match error {
        Error::InvalidCertificate(wrong) => match wrong {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Failure::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Failure::NotValidYet
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Failure::WrongName
            }
            CertificateError::UnknownIssuer => Failure::UnknownIssuer,
            _ => Failure::BadServerCertificate,
        },
        Error::PeerIncompatible(_) | Error::AlertReceived(AlertDescription::ProtocolVersion) => Failure::Old,
        Error::AlertReceived(alert) => Failure::Alert(u8::from(*alert)),
        Error::InvalidMessage(_) | Error::InappropriateMessage { .. } => Failure::NotTls,
        Error::DecryptError => Failure::Damaged,
        _ => Failure::Other,
    }
}
