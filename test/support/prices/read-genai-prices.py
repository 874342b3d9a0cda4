# Prints the literal `providers` of genai_prices/data.py as JSON, without importing the package or its dependencies.

import ast
import json
import sys


def value(node):
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.List):
        return [value(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        return {value(key): value(item) for key, item in zip(node.keys, node.values)}
    if isinstance(node, ast.UnaryOp):
        return -value(node.operand)
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        args = [value(item) for item in node.args]
        if name == "Decimal":
            return str(args[0])
        if name == "date":
            return "%04d-%02d-%02d" % tuple(args)
        if name == "time":
            return "%02d:%02d" % tuple(args[:2])
        return {"type": name, **{word.arg: value(word.value) for word in node.keywords}}
    return ast.unparse(node)


for statement in ast.parse(open(sys.argv[1], encoding="utf-8").read()).body:
    if isinstance(statement, ast.AnnAssign) and statement.target.id == "providers":
        json.dump(value(statement.value), sys.stdout)
