"""The program with shorter limits of time, so that a node that hangs costs a test seconds."""

from rdmaprov.acceptance.preflight import readings
from rdmaprov.acceptance.ranks import launch
from rdmaprov.acceptance.ranks import run as job_run
from rdmaprov.acceptance.ranks import session as live
from rdmaprov.cli import main
from rdmaprov.drift import fleet
from rdmaprov.probe import connection, session

connection._START_S = 1  # behind ansible_ssh_timeout, which is short where a node hangs
session.Limits.__init__.__defaults__ = (15, 20, 32, 1024)
fleet.SURVEY_LIMIT_S = 10
readings.PREFLIGHT_S = 10
launch.START_S = launch.STOP_S = readings._COUNTERS_S = job_run.POLL_S = 10
launch.GRACE_S = live.OVERTIME_S = 2

main()
