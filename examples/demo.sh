#!/bin/sh
# SPDX-License-Identifier: CC0-1.0
