"""The web app for `streamlit run demo.py`; `proveout app` is the same with options."""

from proveout.app.main import main

main()
