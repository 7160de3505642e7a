"""The quality of service of RoCE ports, as the role and the unit at boot set it.

What is here needs nothing but the standard library and machine, plan and rails: the role
installs it on the node, where it runs without Ansible.
"""
