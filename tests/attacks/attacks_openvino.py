"""OpenVINO: XML that multiplies itself or names other files, tags that do not end, and constants that lie."""
import os

from attack import REFUSED, SHOWN, Attack, honest, one_file, put


def constant(name, shape="4", offset="0", size="16", type="f32"):
    return (f'<layer id="0" name="{name}" type="Const"><data element_type="{type}" shape="{shape}" offset="{offset}" '
            f'size="{size}"/></layer>')


def net(layers, rest=""):
    return f'<?xml version="1.0"?><net name="m" version="11"><layers>{layers}</layers>{rest}</net>'


def model(make, weights=lambda: bytes(64)):
    """A structure and its weights."""
    def build(folder):
        put(folder, "m.bin", weights())
        return put(folder, "m.xml", make().encode())
    return build


def laughs():
    """Ten entities, each ten times the one before."""
    declared = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 11))
    return f'<!DOCTYPE net [<!ENTITY e0 "aaaaaaaaaa">{declared}]><net name="&e10;" version="11"><layers/></net>'


def default_attributes():
    """A long attribute that every element would have."""
    return (f'<!DOCTYPE net [<!ATTLIST layer x CDATA "{"x" * 1_000_000}">]><net version="11"><layers>'
            f'{"<layer/>" * 200_000}</layers></net>')


def with_link(folder):
    os.symlink("/etc/passwd", os.path.join(folder, "m.bin"))
    return put(folder, "m.xml", net(constant("w")).encode())


ATTACKS = [
    Attack("openvino-laughs", "openvino", "entities of 10 GB", model(laughs), REFUSED),
    Attack("openvino-external", "openvino", "an entity that is another file",
           model(lambda: '<!DOCTYPE net [<!ENTITY e SYSTEM "file:///etc/passwd">]><net name="&e;" version="11"><layers/></net>'),
           REFUSED),
    Attack("openvino-default-attributes", "openvino", "200,000 elements with a default attribute of 1 MB",
           model(default_attributes), REFUSED),
    Attack("openvino-deep", "openvino", "5,000,000 elements in elements",
           one_file("m.xml", lambda: b"<net version='11'><layers>" + b"<a>" * 5_000_000), REFUSED),
    Attack("openvino-tag-endless", "openvino", "a tag of 90 MB",
           one_file("m.xml", lambda: b"<net version='11'><layers>" + b"<a x='" + b"x" * 90_000_000), REFUSED),
    Attack("openvino-names", "openvino", "1,000,000 names of elements",
           model(lambda: net("".join(f"<n{i}/>" for i in range(1_000_000))))),
    Attack("openvino-attributes", "openvino", "a tag with 300,000 attributes",
           model(lambda: net(f'<layer {" ".join(f"a{i}=" + chr(34) * 2 for i in range(300_000))}/>'))),
    Attack("openvino-metadata", "openvino", "1,000,000 elements of metadata",
           model(lambda: net("", "<rt_info>" + "<b/>" * 1_000_000 + "</rt_info>"))),
    Attack("openvino-one-range", "openvino", "50,000 constants of one range",
           model(lambda: net("".join(constant(f"w{i}") for i in range(50_000))))),
    Attack("openvino-shape-long", "openvino", "a shape of 4 MB", model(lambda: net(constant("w", shape="1," * 2_000_000 + "1"))),
           SHOWN),
    Attack("openvino-wraps", "openvino", "an offset that wraps around",
           model(lambda: net(constant("w", offset=str((1 << 64) - 16)))), SHOWN),
    Attack("openvino-weights-link", "openvino", "weights behind a link out of the directory", with_link, SHOWN),
    Attack("openvino-scopes", "openvino", "bodies in bodies with long names",
           model(lambda: net(f'<layer name="{"n" * 60_000}" type="If"><then_body><layers>' * 20 + constant("w") +
                             "</layers></then_body></layer>" * 20))),
    honest("openvino", "openvino", "20,000 constants with metadata",
           model(lambda: net("".join(constant(f"layer.{i:05}.weight") for i in range(20_000)),
                             '<rt_info><Runtime_version value="2025.1"/></rt_info>'))),
]
