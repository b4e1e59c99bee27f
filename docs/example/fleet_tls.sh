# Certificates for a Dask scheduler, its workers and `clmembench fleet run --scheduler tls://HOST:PORT`. Run on each host, in a folder that
# all share and nobody else can read:
#
#     source fleet_tls.sh
#     dask scheduler --protocol tls --port 8786        # on one host
#     dask worker tls://HOST:8786 --nthreads 1         # on each host with devices
#
# Whoever has the key may run any code on the workers. It is valid for a week.
if [ ! -e fleet-key.pem ]; then
    (umask 077 && openssl req -x509 -newkey rsa:3072 -nodes -days 7 -subj /CN=fleet -keyout fleet-key.pem -out fleet-cert.pem)
fi
export DASK_DISTRIBUTED__COMM__TLS__CA_FILE=$PWD/fleet-cert.pem
for part in SCHEDULER WORKER CLIENT; do
    export "DASK_DISTRIBUTED__COMM__TLS__${part}__CERT=$PWD/fleet-cert.pem" "DASK_DISTRIBUTED__COMM__TLS__${part}__KEY=$PWD/fleet-key.pem"
done
