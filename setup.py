"""What setup.cfg cannot say: gin/ and tools/ go into the package, as they are.

They stand beside electra_tf/ here and in it once it is installed. Neither has
an __init__.py: one in gin/ would hide the package of that name.
"""

import setuptools

FOLDERS = ("gin", "tools")

setuptools.setup(
    packages=setuptools.find_packages(include=["electra_tf*"])
    + [
        f"electra_tf.{folder}"
        for top in FOLDERS
        for folder in (
            top,
            *(f"{top}.{f}" for f in setuptools.find_namespace_packages(top)),
        )
    ],
    package_dir={f"electra_tf.{folder}": folder for folder in FOLDERS},
)
