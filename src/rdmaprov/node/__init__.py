"""What programs share that run on nodes: Python 3.6 and its standard library, nothing else.

rdmaprov.probe.script sends these modules along with a program that imports them.
"""
