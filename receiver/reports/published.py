"""What documents are made of: the base of every published model, and the types of its fields.

A model is the only form of a fact between the values of the core and JSON: it is built from them, stored as its JSON,
read back from it, and described by its JSON Schema in the OpenAPI document. Reading is lenient, because another version
may have written the JSON: unknown fields are dropped, missing ones have their defaults, enumerations are text.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

from receiver.core.money.cost import CENT, amount

T = TypeVar("T")
MISSING = object()
SUFFIX = "Document"  # of a class whose schema has the rest as its name


def _tidy(schema: dict[str, Any], model: "type[Published]") -> None:
    """Drop titles and defaults from a generated schema, and leave as required only what is always there."""
    schema.pop("title", None)
    for found in schema.get("properties", {}).values():
        found.pop("title", None)
        found.pop("default", None)
    required = [name for name in schema.get("required", ()) if name not in model.sometimes]
    schema["required"] = required


def _follow(value: Any, path: str) -> Any:
    """The attribute at *path*, None behind None, MISSING where there is none."""
    for name in path.split("."):
        value = None if value is None else getattr(value, name, MISSING)
    return value


class Published(BaseModel):
    """A document. The fields in *sometimes* (names in JSON) may be missing in what an older version stored."""

    model_config = ConfigDict(
        frozen=True,
        from_attributes=True,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        json_schema_serialization_defaults_required=True,
        json_schema_extra=_tidy,
    )
    sometimes: ClassVar[Sequence[str]] = ()
    paths: ClassVar[Mapping[str, str]] = {}  # of fields that `of` takes from elsewhere, such as ``change.who``
    within: ClassVar[Sequence[str]] = ()  # paths of the parts of a value that have the attributes it lacks itself

    @classmethod
    def of(cls, value: Any, **more: Any) -> Self:
        """Return the document of *value*: each field from the attribute of its name, except those in *more*."""
        return cls(**cls.read(value, more), **more)

    @classmethod
    def read(cls, value: Any, without: Collection[str] = ()) -> dict[str, Any]:
        """Return the fields that *value* has attributes for, except those in *without*."""
        wholes = [value, *(_follow(value, path) for path in cls.within)]
        found = {}
        for name in cls.model_fields:
            path = cls.paths.get(name, name)
            known = (each for whole in wholes if (each := _follow(whole, path)) is not MISSING)
            if name not in without and (each := next(known, MISSING)) is not MISSING:
                found[name] = each
        return found

    def document(self) -> dict[str, Any]:
        """Return the JSON-able document: the fields that are set, and null for others that are always there."""
        names = [field.alias or name for name, field in type(self).model_fields.items()]
        always = dict.fromkeys(name for name in names if name not in self.sometimes)
        return {**always, **self.model_dump(mode="json", exclude_unset=True)}


def extra(**schema: Any) -> Any:
    """Return field information that adds *schema* to what readers are told, and checks nothing."""
    return Field(json_schema_extra=schema)


def says(text: str, **more: Any) -> Any:
    """Return field information with a description."""
    return Field(description=text, **more)


def word(kinds: type[StrEnum] | Sequence[str]) -> WithJsonSchema:
    """Describe a text as one of the words of *kinds*. A newer version may have written another."""
    return WithJsonSchema({"type": "string", "enum": [str(kind) for kind in kinds]})


def utc(at: datetime) -> str:
    """Return *at* as RFC 3339 in UTC with a Z."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


_DATE_TIME = WithJsonSchema({"type": "string", "format": "date-time"})
_AMOUNT = WithJsonSchema({"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$"})

Count = Annotated[int, extra(minimum=0)]
Ratio = Annotated[float, extra(minimum=0)]
Positive = Annotated[float, extra(minimum=0)]
Usd = Annotated[Decimal, PlainSerializer(amount, return_type=str), _AMOUNT]  # as text: a float cannot hold cents
Cents = Annotated[Usd, AfterValidator(lambda usd: usd.quantize(CENT, rounding=ROUND_HALF_EVEN))]
Month = Annotated[str, extra(pattern="^[0-9]{4}-(0[1-9]|1[0-2])$")]
Moment = Annotated[datetime, PlainSerializer(datetime.isoformat, return_type=str), _DATE_TIME]  # of a picture: +00:00
Instant = Annotated[datetime, PlainSerializer(utc, return_type=str), _DATE_TIME]  # everywhere else: Z
Listed = Annotated[tuple[T, ...], BeforeValidator(lambda found: () if found is None else found)]
