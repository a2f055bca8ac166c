"""The loop IR: decisions about storage, fusion and order, and the kernels that follow from them.

Reading order: ``flat``, ``matrix``, ``facts``, ``analysis``, ``placement``, ``intent``,
``preference``, ``policy``, ``footprint``, ``legality``, ``substitution``, ``boxes``, ``inline``,
``surface``, ``schedule``, ``expression``, ``kernel``, ``product``, ``expand_math``, ``pool``,
``lower``, ``verify``, ``work``, ``show``. Nothing here knows a renderer.
"""
