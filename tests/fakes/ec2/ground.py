"""What an account has before its first launch: zones, subnets, security groups, images, profiles. Named for tests."""

from dataclasses import dataclass

ACCOUNT = "123456789012"
REGION = "us-east-1"
VPC = "vpc-0c10d0000000000a1"
ROLE = PROFILE = "bullpen-instance"
PROFILE_ARN = f"arn:aws:iam::{ACCOUNT}:instance-profile/{PROFILE}"
ROLE_ARN = f"arn:aws:iam::{ACCOUNT}:role/{ROLE}"
OPERATOR_ARN = f"arn:aws:iam::{ACCOUNT}:user/operator"
SECURITY_GROUP = "sg-0c10d0000000000a1"


@dataclass(frozen=True)
class Subnet:
    id: str
    zone: str
    zone_id: str
    free_addresses: int = 4000


@dataclass(frozen=True)
class Image:
    id: str
    name: str
    architecture: str
    root_device: str
    root_size: int = 8  # GiB


SUBNETS = tuple(
    Subnet(f"subnet-0c10d0000000000a{number}", f"{REGION}{letter}", f"use1-az{number}")
    for number, letter in enumerate("abcdef", start=1)
)
"""One in each of six zones."""

SECOND_SUBNET = Subnet("subnet-0c10d0000000000b1", SUBNETS[0].zone, SUBNETS[0].zone_id)
"""Beside the first one, in the same zone: a request that names both is refused."""

AMAZON_LINUX = Image("ami-0c10d000000000a64", "al2023-ami-2023.9.20261101.0-kernel-6.1-x86_64", "x86_64", "/dev/xvda")
AMAZON_LINUX_ARM = Image("ami-0c10d000000000a14", "al2023-ami-2023.9.20261101.0-kernel-6.1-arm64", "arm64", "/dev/xvda")
UBUNTU = Image(
    "ami-0c10d000000000b64", "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20261101", "x86_64", "/dev/sda1"
)

ALL_SUBNETS = {subnet.id: subnet for subnet in (*SUBNETS, SECOND_SUBNET)}
ALL_IMAGES = {image.id: image for image in (AMAZON_LINUX, AMAZON_LINUX_ARM, UBUNTU)}
