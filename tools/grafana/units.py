"""Values as Grafana writes them, for the units that our dashboards use."""

import math


def shown(value: float, unit: str, decimals: int | None = None) -> str:
    """Return *value* in *unit* as a person reads it."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞"
    value = 0.0 if abs(value) < 1e-9 else value
    match unit:
        case "percentunit":
            return f"{_trimmed(value * 100, 1 if decimals is None else decimals)}%"
        case "currencyUSD":
            scale, letter = _scale(value)
            places = decimals if decimals is not None else 0 if scale == 1 and abs(value) >= 100 else 2
            return f"${value / scale:.{places}f}{letter}"
        case "s":
            return _seconds(value)
        case "celsius":
            return f"{_trimmed(value, 1)} °C"
        case "watt":
            return f"{_trimmed(value / 1000, 2)} kW" if abs(value) >= 1000 else f"{_trimmed(value, 1)} W"
        case "Bps":
            scale, letter = _scale(value)
            return f"{_trimmed(value / scale, 2)} {letter.replace('K', 'k').replace('B', 'G')}B/s"
        case "none":
            return _trimmed(value, 3)
    scale, letter = _scale(value)
    return f"{_trimmed(value / scale, 2 if decimals is None else decimals)}{letter and ' ' + letter}"


def _scale(value: float) -> tuple[float, str]:
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if abs(value) >= size:
            return size, letter
    return 1, ""


def _seconds(value: float) -> str:
    for size, name in ((86400.0, "day"), (3600.0, "hour"), (60.0, "min")):
        if abs(value) >= size:
            return f"{_trimmed(value / size, 2)} {name}{'s' if name != 'min' and abs(value / size) != 1 else ''}"
    if value == 0 or abs(value) >= 1:
        return f"{_trimmed(value, 2)} s"
    return f"{_trimmed(value * 1000, 1)} ms"


def _trimmed(value: float, places: int) -> str:
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
