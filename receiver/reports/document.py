"""What published documents are made of. Amounts of USD are exact."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
)

from receiver.core.money.cost import amount, in_cents, stated

T = TypeVar("T")
MISSING = object()
SUFFIX = "Document"  # of a class whose schema has the rest as its name


def _tidy(schema: dict[str, Any], model: "type[Published]") -> None:
    """Drop titles and defaults from a generated schema, and leave as required only what is always there."""
    schema.pop("title", None)
    for property_schema in schema.get("properties", {}).values():
        property_schema.pop("title", None)
        property_schema.pop("default", None)
    required = [name for name in schema.get("required", ()) if name not in model.sometimes]
    schema["required"] = required


def _follow(value: object, path: Sequence[str]) -> object:
    """The attribute of an attribute ... at *path*, None behind None, MISSING where there is none."""
    for name in path:
        value = None if value is None else getattr(value, name, MISSING)
    return value


@cache  # a step makes dozens of documents of the same few classes
def _fields(model: "type[Published]") -> Sequence[tuple[str, str, Sequence[str]]]:
    """Each field's name, its name in JSON, and where `read` finds it."""
    fields = model.model_fields.items()
    return [(name, field.alias or name, model.paths.get(name, name).split(".")) for name, field in fields]


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
    def read(cls, value: object, without: Collection[str] = ()) -> dict[str, Any]:
        """Return the fields that *value* has attributes for, except those in *without*."""
        wholes = [value, *(_follow(value, path.split(".")) for path in cls.within)]
        values_by_field = {}
        for name, _, path in _fields(cls):
            for whole in wholes if name not in without else ():
                if (each := _follow(whole, path)) is not MISSING:
                    values_by_field[name] = each
                    break
        return values_by_field

    def document(self) -> dict[str, Any]:
        """Return the JSON-able document: the fields that are set, and null for others that are always there."""
        always = dict.fromkeys(name for _, name, _ in _fields(type(self)) if name not in self.sometimes)
        return {**always, **self.model_dump(mode="json", exclude_unset=True)}


def extra(**schema: Any) -> object:
    """Return field information that adds *schema* to the published description and checks nothing."""
    return Field(json_schema_extra=schema)


def says(text: str, **more: Any) -> object:
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
Usd = Annotated[Decimal, PlainSerializer(stated, return_type=str), _AMOUNT]  # as text: a float cannot hold cents
Price = Annotated[Decimal, PlainSerializer(amount, return_type=str), _AMOUNT]  # with all of its digits
Cents = Annotated[Usd, AfterValidator(in_cents)]
Month = Annotated[str, extra(pattern="^[0-9]{4}-(0[1-9]|1[0-2])$")]
Moment = Annotated[datetime, PlainSerializer(datetime.isoformat, return_type=str), _DATE_TIME]  # of a picture: +00:00
Instant = Annotated[datetime, PlainSerializer(utc, return_type=str), _DATE_TIME]  # everywhere else: Z
Listed = Annotated[tuple[T, ...], BeforeValidator(lambda entries: () if entries is None else entries)]
