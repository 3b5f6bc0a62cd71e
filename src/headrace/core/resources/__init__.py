"""The kinds that Headrace serves: their fields, defaults, admission rules, tables and schemas.

`registry` lists the kinds, `admission.admit` is the way in, `schema` makes JSON Schemas, `printing` the cells of `get`.
"""
