use std::fs;

use super::*;

/// What matters of Debian 12's.
const MARIADB: &str = r#"
[Unit]
ExecStart=/none
[Service]
Type=notify
User=mysql
ProtectSystem=full
ProtectHome=true
; nothing
ExecStart=/bin/sh -c "set -f; [ ! -e /usr/bin/galera_recovery ] && VAR= || \
# nothing either
 VAR=`/usr/bin/galera_recovery`; [ $? -eq 0 ] || exit 1; \
 exec /usr/sbin/mariadbd $MYSQLD_OPTS $_WSREP_NEW_CLUSTER $VAR"
Restart=on-abnormal
LimitMEMLOCK=524288
"#;
const POSTGRESQL: &str = "
[Service]
Type=forking
ExecStart=-/usr/bin/pg_ctlcluster --skip-systemctl-redirect %i start
ExecStop=/usr/bin/pg_ctlcluster --skip-systemctl-redirect -m fast %i stop
PIDFile=/run/postgresql/%i.pid
";

fn drop_in_for(name: &str, unit: &str, texts: &[&str]) -> Result<String, Failure> {
    let unit = Unit::parse(unit, "/lib/systemd/system/unit", texts.iter().copied());
    made(service(name)?, &unit, &runner("/usr/lib/iolane/library.so"))
}

fn runner(library: &str) -> Runner {
    Runner {
        program: PathBuf::from("/usr/bin/iolane"),
        library: PathBuf::from(library),
        is_named: false,
        read_ahead: None,
    }
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

#[test]
fn a_shell_that_starts_the_server_keeps_its_words() {
    let text = drop_in_for("mariadb", "mariadb.service", &[MARIADB]).unwrap();
    let command = r#"ExecStart=/bin/sh -c "set -f; [ ! -e /usr/bin/galera_recovery ] && VAR= || VAR=`/usr/bin/galera_recovery`; [ $? -eq 0 ] || exit 1; exec /usr/bin/iolane run --profile mariadb --report %L/iolane/mariadb/report.html -- /usr/sbin/mariadbd $MYSQLD_OPTS $_WSREP_NEW_CLUSTER $VAR""#;
    let expected = [
        "[Service]",
        "ExecStart=",
        command,
        "NotifyAccess=all",
        "RestartForceExitStatus=131 132 133 134 135 136 137 139 159",
        "LogsDirectory=iolane/mariadb",
        "LimitNICE=-10",
    ];
    assert_eq!(lines(&text), expected);
}

#[test]
fn a_command_is_put_behind_what_systemd_says_before_it() {
    let unit = "[Service]\nType=notify\nEnvironment=MYSQLD_PARENT_PID=1\n\
                ExecStart=/usr/sbin/mysqld $MYSQLD_OPTS\nRestart=on-failure\n\
                RestrictAddressFamilies=AF_INET AF_INET6\nSystemCallFilter=@system-service\n";
    let text = drop_in_for("mysql", "mysql.service", &[unit]).unwrap();
    let expected = [
        "[Service]",
        "ExecStart=",
        "ExecStart=/bin/sh -c 'MYSQLD_PARENT_PID=$$$$ exec /usr/bin/iolane run --profile mysql --report %L/iolane/mysql/report.html -- /usr/sbin/mysqld $MYSQLD_OPTS'",
        "NotifyAccess=all",
        "LogsDirectory=iolane/mysql",
        "LimitNICE=-10",
        "RestrictAddressFamilies=AF_UNIX",
        "SystemCallFilter=memfd_create mincore pidfd_open process_vm_readv set_robust_list setpriority",
    ];
    assert_eq!(lines(&text), expected);
    let drop_in = "[Service]\nExecStart=\nExecStart=-/opt/pgsql/bin/postmaster -D /data\n";
    let text = drop_in_for("postgresql", "postgresql.service", &[POSTGRESQL, drop_in]).unwrap();
    assert_eq!(
        lines(&text)[2],
        "ExecStart=-/usr/bin/iolane run --profile postgresql --report %L/iolane/postgresql/report.html -- /opt/pgsql/bin/postmaster -D /data"
    );
}

#[test]
fn a_cluster_is_started_without_what_empties_the_environment() {
    let text = drop_in_for("postgresql", "postgresql@.service", &[POSTGRESQL]).unwrap();
    let lines = lines(&text);
    assert!(
        lines.contains(&"Type=notify") && lines.contains(&"PIDFile="),
        "{text}"
    );
    let command = "ExecStart=/bin/sh -c 'exec /usr/bin/iolane run --profile postgresql --report %L/iolane/postgresql/%i.html -- /usr/lib/postgresql/$${0%%%%-*}/bin/postgres -c config_file=/etc/postgresql/%I/postgresql.conf >>/var/log/postgresql/postgresql-%i.log 2>&1' %i";
    assert!(lines.contains(&command), "{text}");
}

#[test]
fn what_cannot_be_changed_is_refused() {
    let other = "[Service]\nExecStart=/usr/sbin/other --with /usr/sbin/mariadbd-like\n";
    let refused = drop_in_for("mariadb", "mariadb.service", &[other]).unwrap_err();
    assert!(refused.to_string().contains("starts none of"), "{refused}");
    assert!(drop_in_for("oracle", "oracle.service", &[other]).is_err());
    let unit = Unit::parse("mariadb.service", "/x", [MARIADB]);
    let mariadb = service("mariadb").unwrap();
    let refused = made(mariadb, &unit, &runner("/root/library.so")).unwrap_err();
    assert!(refused.to_string().contains("ProtectHome"), "{refused}");
    let mut named = runner("/opt/library.so");
    named.is_named = true;
    let text = made(mariadb, &unit, &named).unwrap();
    assert!(
        text.contains(" --library /opt/library.so -- /usr/sbin/mariadbd"),
        "{text}"
    );
}

#[test]
fn drop_ins_change_a_unit_and_the_own_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("mariadb.service.d");
    fs::create_dir(&place).unwrap();
    fs::write(folder.path().join("mariadb.service"), MARIADB).unwrap();
    fs::write(place.join("local.conf"), "[Service]\nUser=other\n").unwrap();
    fs::write(place.join(DROP_IN), "[Service]\nUser=wrong\n").unwrap();
    fs::write(place.join("x.bak"), "[Service]\nUser=wrong\n").unwrap();
    let unit = installed::read("mariadb.service", &[folder.path()]).unwrap();
    assert_eq!(unit.last("User"), Some("other"));
    assert_eq!(unit.all("ExecStart").count(), 1);
    assert_eq!(installed::read("none.service", &[folder.path()]), None);
}

#[test]
fn the_command_reads_ahead_as_it_was_asked_to() {
    let runner = Runner {
        read_ahead: Some(64 << 20),
        ..runner("/usr/lib/iolane/library.so")
    };
    let unit = Unit::parse("mariadb.service", "/lib/systemd/system/unit", [MARIADB]);
    let text = made(service("mariadb").unwrap(), &unit, &runner).unwrap();
    let words = " --read-ahead logical --read-ahead-memory 67108864 -- /usr/sbin/mariadbd";
    assert!(text.contains(words), "{text}");
}
