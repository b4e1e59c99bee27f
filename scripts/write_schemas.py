"""Write docs/schemas anew, from the types of the code: python scripts/write_schemas.py [FOLDER]."""

import json
import sys
from pathlib import Path

from clmembench.report.schemas import schemas


def main(folder: Path) -> None:
    """Writes a file for each schema."""
    folder.mkdir(exist_ok=True)
    for name, schema in schemas().items():
        (folder / f"{name}.json").write_text(json.dumps(schema, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "docs" / "schemas")
