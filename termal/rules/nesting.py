"""How deep the lists and objects of a JSON value lie within each other, told without recursion."""

_CONTAINERS = (dict, list)


def deeper_than(value: object, limit: int) -> bool:
    """``value`` has more than ``limit`` lists and objects within each other."""
    level: list[object] = [value] if isinstance(value, _CONTAINERS) else []
    for _ in range(limit):
        below: list[object] = []
        for container in level:
            if isinstance(container, dict):
                below += [inner for inner in container.values() if isinstance(inner, _CONTAINERS)]
            elif isinstance(container, list):
                below += [inner for inner in container if isinstance(inner, _CONTAINERS)]
        level = below
    return bool(level)
