"""Updates as code: gradients, clipping, optimizers and loss scaling as computations on the device.

Reading order: ``rule``, ``adaptive``, ``scalar``, ``gradient``, ``grad_update``, ``norm``,
``optimizer_update``, ``outlier``, ``loss_scale``, ``twin``, ``scaled``, ``indexed``, ``once``,
``materialized``, ``values_file``, ``dump``.

A function here returns a `Computation`: compile it alone, or join it with others by ``+`` into one
routine. The rules of the optimizers and of the loss scale are also what `fit` is made of.
"""
