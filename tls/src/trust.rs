//! Whom a client believes, and whom a server.
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::WebPkiClientVerifier;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
};
use webpki::{EndEntityCert, KeyUsage};

use crate::shake::failure_of;
use crate::Failure;

/// What a file of authorities has.
#[derive(Debug)]
struct Named {
    certificates: Vec<CertificateDer<'static>>,
    /// Those that are authorities'; `None`: all are. Of the others each is believed itself, and nothing that it signed:
    /// the usual check asks no certificate of the file whether it is an authority's.
    authorities: Option<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl Named {
    fn has(&self, certificate: &CertificateDer<'_>) -> bool {
        self.certificates.iter().any(|named| named.as_ref() == certificate.as_ref())
    }

    /// Of a certificate that the usual check believes: whether it is in the file, or an authority has signed it.
    fn vouches(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
        usage: KeyUsage,
    ) -> bool {
        let Some(authorities) = &self.authorities else { return true };
        let algorithms = self.provider.signature_verification_algorithms.all;
        let signed = |it: &EndEntityCert<'_>| {
            it.verify_for_usage(algorithms, &authorities.roots, others, now, usage, None, None).is_ok()
        };
        self.has(certificate) || EndEntityCert::try_from(certificate).is_ok_and(|it| signed(&it))
    }
}

/// Certificates in PEM, of which those that cannot be read are left out: systems have some.
fn read(authorities: &[u8], provider: &Arc<CryptoProvider>) -> (Named, Arc<RootCertStore>) {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(authorities).flatten().collect();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates.iter().cloned());
    let all = certificates.iter().all(|it| !is_no_authoritys(it, provider));
    let authorities = (!all).then(|| {
        let mut some = RootCertStore::empty();
        let are = certificates.iter().filter(|it| !is_no_authoritys(it, provider));
        some.add_parsable_certificates(are.cloned());
        some
    });
    (Named { certificates, authorities, provider: provider.clone() }, Arc::new(roots))
}

/// Whether a certificate is one of version 3 that does not say that it is an authority's.
fn is_no_authoritys(certificate: &CertificateDer<'_>, provider: &CryptoProvider) -> bool {
    let wrong = |now| wrong_by_itself(certificate, now, KeyUsage::server_auth(), provider);
    let mut found = wrong(UnixTime::since_unix_epoch(Duration::ZERO));
    // Within its time: what it is comes next then, and what it may be used for behind that.
    if let Some(webpki::Error::CertNotValidYet { not_before, .. }) = found {
        found = wrong(not_before);
    }
    matches!(
        found,
        Some(
            webpki::Error::UnknownIssuer
                | webpki::Error::RequiredEkuNotFoundContext(_)
                | webpki::Error::EmptyEkuExtension
        )
    )
}

/// What is wrong with a certificate where there are no authorities at all. Its time, and what it may be used for, is
/// looked at first.
fn wrong_by_itself(
    certificate: &CertificateDer<'_>,
    now: UnixTime,
    usage: KeyUsage,
    provider: &CryptoProvider,
) -> Option<webpki::Error> {
    let algorithms = provider.signature_verification_algorithms.all;
    EndEntityCert::try_from(certificate)
        .and_then(|it| it.verify_for_usage(algorithms, &[], &[], now, usage, None, None).map(|_| ()))
        .err()
}

/// The usual check of chain, time and name, and beside it: a server's certificate that is itself among the authorities
/// is believed as it is, whoever has signed it. `openssl req -x509` makes such ones, which say that they are an
/// authority's and would be refused as a server's.
#[derive(Debug)]
pub struct Trust {
    usual: Arc<WebPkiServerVerifier>,
    named: Named,
}

/// `None` where no certificate can be read.
pub fn trust(authorities: &[u8], provider: &Arc<CryptoProvider>) -> Option<Arc<Trust>> {
    let (named, roots) = read(authorities, provider);
    let usual = WebPkiServerVerifier::builder_with_provider(roots, provider.clone());
    let usual = usual.build().ok()?;
    Some(Arc::new(Trust { usual, named }))
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let usual = self.usual.verify_server_cert(server, others, name, ocsp, now);
        let wrong_by = |what| Err(Error::InvalidCertificate(what));
        if usual.is_ok() && !self.named.vouches(server, others, now, KeyUsage::server_auth()) {
            return wrong_by(CertificateError::UnknownIssuer);
        }
        let may_be_named = matches!(
            usual,
            Err(Error::InvalidCertificate(CertificateError::Other(_) | CertificateError::UnknownIssuer))
        );
        if !may_be_named {
            return usual;
        }
        match wrong_by_itself(server, now, KeyUsage::server_auth(), &self.named.provider) {
            Some(webpki::Error::CaUsedAsEndEntity | webpki::Error::UnknownIssuer) => {}
            _ => return usual,
        }
        if !self.named.has(server) {
            return wrong_by(CertificateError::UnknownIssuer);
        }
        let certificate = EndEntityCert::try_from(server);
        match certificate.and_then(|it| it.verify_is_valid_for_subject_name(name)) {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err(_) => wrong_by(CertificateError::NotValidForName),
        }
    }

    // TLS 1.2 is not compiled in, so this is never asked for.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::HandshakeNotComplete)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

/// What a server says of clients' certificates, as `Trust` of servers' but for the name: that is read by others.
pub struct Clients {
    usual: Arc<dyn ClientCertVerifier>,
    named: Named,
}

impl Clients {
    /// `None` where no certificate can be read.
    pub fn new(authorities: &[u8], provider: &Arc<CryptoProvider>) -> Option<Arc<Clients>> {
        let (named, roots) = read(authorities, provider);
        let usual = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
        let usual = usual.build().ok()?;
        Some(Arc::new(Clients { usual, named }))
    }

    pub fn usual(&self) -> &dyn ClientCertVerifier {
        &*self.usual
    }

    /// Of the authorities, which clients are told.
    pub fn names(&self) -> &[DistinguishedName] {
        self.usual.root_hint_subjects()
    }

    pub fn judge(
        &self,
        client: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Failure> {
        let Err(wrong) = self.usual.verify_client_cert(client, others, now) else {
            let vouched = self.named.vouches(client, others, now, KeyUsage::client_auth());
            return if vouched { Ok(()) } else { Err(Failure::UnknownIssuer) };
        };
        if EndEntityCert::try_from(client).err() == Some(webpki::Error::UnsupportedCertVersion) {
            return Err(Failure::Version1);
        }
        let itself = wrong_by_itself(client, now, KeyUsage::client_auth(), &self.named.provider);
        if itself != Some(webpki::Error::CaUsedAsEndEntity) {
            return Err(failure_of(&wrong));
        }
        if !self.named.has(client) {
            return Err(Failure::UnknownIssuer);
        }
        Ok(())
    }
}
