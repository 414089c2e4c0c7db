// Certificates of tests, in PEM, made by openssl, each with its key: an authority; what it has
// signed, for a hundred years but for `brief`, which is good for one day (from BRIEF_BEGIN on), and
// of version 3 but for `old`, which is of version 1; one that another authority has signed; and
// `forged`, with names of the server and of a client, which has been signed with the server's key.
#ifndef OUTBOARD_TLS_TEST_CERTIFICATES_H
#define OUTBOARD_TLS_TEST_CERTIFICATES_H

#define BRIEF_BEGIN 1795828470u

static const char authority[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBfzCCASWgAwIBAgIUF7wyIC0BfNamL5niPa+FX/UWmbgwCgYIKoZIzj0EAwIw\n"
    "FDESMBAGA1UEAwwJYXV0aG9yaXR5MCAXDTI2MTEyODAxMTQzMFoYDzIxMjYxMTA0\n"
    "MDExNDMwWjAUMRIwEAYDVQQDDAlhdXRob3JpdHkwWTATBgcqhkjOPQIBBggqhkjO\n"
    "PQMBBwNCAASrL9tyEajjRL4gv8Z3/dWfalLqoIbo0T+CxGEUWemr87i8IzEJZHv/\n"
    "dsX6HGq7jnJxF4Lq1khLQKXLVuRkDc9Oo1MwUTAdBgNVHQ4EFgQUSFIhUqaoAwwc\n"
    "x9go5qpmiZgAlIUwHwYDVR0jBBgwFoAUSFIhUqaoAwwcx9go5qpmiZgAlIUwDwYD\n"
    "VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiBk0+7oWis+YY9kl9Yfii1K\n"
    "Vz43TdBWy+CARMFH1iVoSwIhAKc9IvHy0S6VFz8x9M8xkw0RNep10a464u1RgAZX\n"
    "dmhG\n"
    "-----END CERTIFICATE-----\n";
static const char server[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBezCCASKgAwIBAgIUK2S0FvlXqIdLb1ZTGVHTmMuQRzEwCgYIKoZIzj0EAwIw\n"
    "FDESMBAGA1UEAwwJYXV0aG9yaXR5MCAXDTI2MTEyODAxMTQzMFoYDzIxMjYxMTA0\n"
    "MDExNDMwWjARMQ8wDQYDVQQDDAZzZXJ2ZXIwWTATBgcqhkjOPQIBBggqhkjOPQMB\n"
    "BwNCAASinLpUYkFpEsQn3Eb1GuqNsgxi2vPxJFWsrMMN88cQZU/WJm6SvGefGV5n\n"
    "B9Jh4cb4VNvVq8Rfieubl7rxFJNdo1MwUTAPBgNVHREECDAGggRncHUxMB0GA1Ud\n"
    "DgQWBBRkujilR7yyczWcNIXK+4ylSlOBCTAfBgNVHSMEGDAWgBRIUiFSpqgDDBzH\n"
    "2CjmqmaJmACUhTAKBggqhkjOPQQDAgNHADBEAiBt1ZGAuya3hB8YfjZv9RPz/fL0\n"
    "hARfPVhmsC+BTWwNVQIgJwWdJECXFx3HIOlpyB2JfiWeMhSoHC0mC1vE5ub93+Q=\n"
    "-----END CERTIFICATE-----\n";
static const char server_key[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgatxbH37wA+foIRuo\n"
    "VoH0LaXfU6fuV5OJL3u3cYG7NYShRANCAASinLpUYkFpEsQn3Eb1GuqNsgxi2vPx\n"
    "JFWsrMMN88cQZU/WJm6SvGefGV5nB9Jh4cb4VNvVq8Rfieubl7rxFJNd\n"
    "-----END PRIVATE KEY-----\n";
static const char vision[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBiTCCATGgAwIBAgIUK2S0FvlXqIdLb1ZTGVHTmMuQRzIwCgYIKoZIzj0EAwIw\n"
    "FDESMBAGA1UEAwwJYXV0aG9yaXR5MCAXDTI2MTEyODAxMTQzMFoYDzIxMjYxMTA0\n"
    "MDExNDMwWjARMQ8wDQYDVQQDDAZ2aXNpb24wWTATBgcqhkjOPQIBBggqhkjOPQMB\n"
    "BwNCAAQu2oOxXV+bCFaScYLdI8xt/i4VYo+BOmCvvYSaMqxRnt4ZEjpFYVTQMjIn\n"
    "yNMKUS42ewVwUqw6RUkt650N7HqJo2IwYDAeBgNVHREEFzAVhhNzcGlmZmU6Ly9s\n"
    "YWIvdmlzaW9uMB0GA1UdDgQWBBQp3Ai3mH1SgpQNs4chbpY0u7ue6zAfBgNVHSME\n"
    "GDAWgBRIUiFSpqgDDBzH2CjmqmaJmACUhTAKBggqhkjOPQQDAgNGADBDAh92g7GL\n"
    "I7nVtO8VSoQL0jKEld6CZabalqcMshygODEnAiAZzq1iJXYUJOzvtGE7j+FY27cr\n"
    "UDlDTLHe8ce7ZMK6Ew==\n"
    "-----END CERTIFICATE-----\n";
static const char vision_key[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgNsOxkUBnoUZk9dHU\n"
    "RxPl3u4dsvqjbmTAVygtMrl5+GOhRANCAAQu2oOxXV+bCFaScYLdI8xt/i4VYo+B\n"
    "OmCvvYSaMqxRnt4ZEjpFYVTQMjInyNMKUS42ewVwUqw6RUkt650N7HqJ\n"
    "-----END PRIVATE KEY-----\n";
static const char brief[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBeTCCASCgAwIBAgIUK2S0FvlXqIdLb1ZTGVHTmMuQRzMwCgYIKoZIzj0EAwIw\n"
    "FDESMBAGA1UEAwwJYXV0aG9yaXR5MB4XDTI2MTEyODAxMTQzMFoXDTI2MTEyOTAx\n"
    "MTQzMFowEDEOMAwGA1UEAwwFc2hvcnQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC\n"
    "AASFJRAa6b4v8EF3JuOGZjENZR50gW/t59jsN/hqIJlcZCtbOxYbWHnuN1ttaro+\n"
    "SxcFe6KQB98FxiteqyssqCuro1QwUjAQBgNVHREECTAHggVzaG9ydDAdBgNVHQ4E\n"
    "FgQUbdwF0ZkT/yCbolqgtJI2I0LHFiQwHwYDVR0jBBgwFoAUSFIhUqaoAwwcx9go\n"
    "5qpmiZgAlIUwCgYIKoZIzj0EAwIDRwAwRAIgPnK8TS7VTNuuSkMNG6KSD0gEYCEE\n"
    "/rLe9zf7yFWc2foCIBqEXInIwTcH8lPS4AqJ/7OKuCZov9x3THsraPeTozq8\n"
    "-----END CERTIFICATE-----\n";
static const char brief_key[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgxTb1V9CTYZdPHbub\n"
    "Rh98r/zncA7jEbnR7+HqnRH6pFehRANCAASFJRAa6b4v8EF3JuOGZjENZR50gW/t\n"
    "59jsN/hqIJlcZCtbOxYbWHnuN1ttaro+SxcFe6KQB98FxiteqyssqCur\n"
    "-----END PRIVATE KEY-----\n";
static const char old[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBHTCBxQIUK2S0FvlXqIdLb1ZTGVHTmMuQRzQwCgYIKoZIzj0EAwIwFDESMBAG\n"
    "A1UEAwwJYXV0aG9yaXR5MCAXDTI2MTEyODAxMTQzMVoYDzIxMjYxMTA0MDExNDMx\n"
    "WjAOMQwwCgYDVQQDDANvbGQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARnXg/I\n"
    "qN0UKsHBZclyGZKL01cnaWAWCFxkMzE1eR3/CHCvmEXpCU91o1BxVFsWCVzpZeKP\n"
    "cWCgdC1B0kYECre5MAoGCCqGSM49BAMCA0cAMEQCIGTaRw6tQbh8GNLzXKriJ2Yq\n"
    "uuTHMddsCAEmJioc1Ex2AiBNcWbY+tll1gsiap9kIJevL8tGRr90skhx5CsFSUwl\n"
    "ng==\n"
    "-----END CERTIFICATE-----\n";
static const char old_key[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgTOpCgjMBOfR/Wdb6\n"
    "mp9p2U7FCljAh8F8nJZ+Y7RZDK+hRANCAARnXg/IqN0UKsHBZclyGZKL01cnaWAW\n"
    "CFxkMzE1eR3/CHCvmEXpCU91o1BxVFsWCVzpZeKPcWCgdC1B0kYECre5\n"
    "-----END PRIVATE KEY-----\n";
static const char stranger[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBfjCCASSgAwIBAgIUeOiDL529k67dAfwVXOwnXAmB6qYwCgYIKoZIzj0EAwIw\n"
    "EDEOMAwGA1UEAwwFb3RoZXIwIBcNMjYxMTI4MDExNDMxWhgPMjEyNjExMDQwMTE0\n"
    "MzFaMBMxETAPBgNVBAMMCHN0cmFuZ2VyMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcD\n"
    "QgAEW2OaZftXiK6s99vTKgIXlsf8wZnVCT8k27Z6OIzr024pAkDrR1VwYzs91YbS\n"
    "119hxi8EJtGFnBUzD2eNfjZ2zqNXMFUwEwYDVR0RBAwwCoIIc3RyYW5nZXIwHQYD\n"
    "VR0OBBYEFOQFSn9xrk95gHPxnp81um9FNjh9MB8GA1UdIwQYMBaAFCMdbk1KbCzM\n"
    "tmAqi98I7KH0rVlmMAoGCCqGSM49BAMCA0gAMEUCIQCouxGWs74iULvec3xOETQl\n"
    "fxtbZ6d4TILMNwT3apRc7wIgMRQ9GnMgzYeMRrrclRA/IZVpfv33vIn/Wk1wGNlw\n"
    "Qgs=\n"
    "-----END CERTIFICATE-----\n";
static const char stranger_key[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgbZkyQEs71gDk9UNO\n"
    "0FcZs0RXwScdiGWVsCHN9VyFNpqhRANCAARbY5pl+1eIrqz329MqAheWx/zBmdUJ\n"
    "PyTbtno4jOvTbikCQOtHVXBjOz3VhtLXX2HGLwQm0YWcFTMPZ41+NnbO\n"
    "-----END PRIVATE KEY-----\n";
static const char forged[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBjjCCATSgAwIBAgIUa8MnWNtD1cvk9gXbCrFJC5/YE3AwCgYIKoZIzj0EAwIw\n"
    "ETEPMA0GA1UEAwwGc2VydmVyMCAXDTI2MTEyODAxMTQzMFoYDzIxMjYxMTA0MDEx\n"
    "NDMwWjARMQ8wDQYDVQQDDAZmb3JnZWQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC\n"
    "AASBM5LgbqmbnFD7UcL30h3I/DtvB0eGr//ISNLHPqfcMMHbkK5nmdqJ+MDoEwXv\n"
    "j6FH5s4DL6jrcXUB2cd0DRPio2gwZjAkBgNVHREEHTAbggRncHUxhhNzcGlmZmU6\n"
    "Ly9sYWIvdmlzaW9uMB0GA1UdDgQWBBSX5YHTK1mQGN/OE1ggqFTCYdcWVjAfBgNV\n"
    "HSMEGDAWgBRkujilR7yyczWcNIXK+4ylSlOBCTAKBggqhkjOPQQDAgNIADBFAiEA\n"
    "w/p/mJ6VZKeBYSwlYRCsnkpiXnGUogWUa1gry8kLsW0CIGZryn4oVJRzdsRBgoBz\n"
    "FjlET0evpb2x+wv5U5Ygzboo\n"
    "-----END CERTIFICATE-----\n";
static const char forged_key[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgiRoD8ak0l9VJNWUw\n"
    "LVFVOO1g7EsaZx6Ytbdwh9A0q12hRANCAASBM5LgbqmbnFD7UcL30h3I/DtvB0eG\n"
    "r//ISNLHPqfcMMHbkK5nmdqJ+MDoEwXvj6FH5s4DL6jrcXUB2cd0DRPi\n"
    "-----END PRIVATE KEY-----\n";

#endif
