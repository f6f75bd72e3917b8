from click.testing import CliRunner

from tofu.command_line.main import main


def run(*arguments):
    return CliRunner().invoke(main, arguments)


def assert_refused(result, *fragments):
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.output
    for fragment in fragments:
        assert fragment in result.output
